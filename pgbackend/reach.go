package pgbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker"
)

// A sequence goes back in two ways that don't change where it comes from, and so begin no epoch:
//
//   - A crash, also with synchronous_commit on. nextval writes ahead: one record in the log covers its value and 32 more. The
//     statement that wrote the record waits until it is on disk; one that gets one of the 32 other values meanwhile waits for nothing. After
//     a crash at that moment the sequence goes on from the last record that was on disk, and gives values out again.
//   - Somebody sets it back: by setval, by a plain dump that is fed to the database from which it comes, by pg_restore --data-only.
//
// Against both, the row of the epoch has a value that the sequence had reached. A Locker that is given a value of reachStep or more above
// it has that written down before it uses the value; the row is on disk when its statement is answered, and never falls. So at each
// moment all values that were given out are less than reached + reachStep.
//
// The first connection since all others have ended moves the sequence there, if it isn't beyond that. So it doesn't have to know what has
// happened. Each connection takes a mark before it takes a value, an advisory lock in shared mode; locks don't outlive a crash. One connection
// at a time looks for a mark, by trying for the same lock exclusively: it has the turn, a lock, until the sequence is on disk. Where there is
// no mark nobody takes values meanwhile.
//
// The first connection also raises the epoch if the row was restored, which the row itself shows (see writing).
//
// While others are connected the server doesn't crash, but the sequence may be set back. A new connection notices that if the sequence is below
// reached. Each Locker remembers the largest token that it was given, and notices when a later one isn't larger. A Locker that notices moves
// the sequence beyond both. The epoch isn't raised then, because the others would go on with the lower one; the sequence is theirs too. What is
// left: until somebody notices, a Locker that has seen no larger value gives out what others had before.

// reachStep is how many values may be given out before the next one is written down.
const reachStep = 1 << 16

// errOldEpoch is about a connection to a server that was replaced, or from before the epoch was raised by hand.
var errOldEpoch = errors.New("the fencing tokens are of an epoch that is over")

// reach moves the sequence beyond all values that may have been given out, if that is needed. It is one message, so that nobody has to
// wait for a client that has the turn. Transactions surround all that may fail while it has the turn, which is the session's and outlives
// an error: the server ends a session that is idle in a transaction after a second.
func (c *conn) reach(ctx context.Context) error {
	turn, mark := pair(ownSpace, 0), c.mark()
	first := "CASE WHEN pg_try_advisory_lock(" + mark + ") THEN pg_advisory_unlock(" + mark + ") ELSE false END"
	limit := fmt.Sprintf("CASE WHEN %s THEN reached + %d ELSE reached END", first, reachStep)
	r, err := c.exec(ctx, "BEGIN; SELECT pg_advisory_lock("+turn+"); COMMIT; "+
		fmt.Sprintf("BEGIN; SET LOCAL synchronous_commit = on; UPDATE %s SET epoch = epoch + 1, written = "+writer+" WHERE "+restored+" AND %s; COMMIT; ", c.d.table(), first)+
		"BEGIN; "+c.moveOn(limit, fmt.Sprintf("reached + %d", reachStep))+"; "+c.noteReached(reachStep/2)+"; COMMIT; "+
		"BEGIN; SELECT pg_advisory_lock_shared("+mark+"); SELECT pg_advisory_unlock("+turn+"); COMMIT; SELECT reached, epoch FROM "+c.d.table())
	if err != nil {
		return err
	}
	last := len(r.Rows) - 1
	c.limit.Store(r.Int(last, 0) + reachStep)
	c.epoch = r.Int(last, 1)
	_, err = token(c.epoch, 1)
	return err
}

// mark is the mark as SQL.
func (c *conn) mark() string { return pair(ownSpace, int32(c.place.sequence)) } //nolint:gosec // an OID has 32 bits

// lastValue is SQL: the last value of the sequence; 0 if there was none.
func (c *conn) lastValue() string {
	return fmt.Sprintf("coalesce(pg_sequence_last_value(%s), 0)", c.seq)
}

// moveOn is SQL that sets the sequence to a value if it is below a limit. Both are SQL.
func (c *conn) moveOn(limit, to string) string {
	return fmt.Sprintf("SELECT CASE WHEN %s < %s THEN setval(%s, %s) END FROM %s", c.lastValue(), limit, c.seq, to, c.d.table())
}

// noteReached is SQL that writes down how far the sequence is, if that is far enough from what was written.
func (c *conn) noteReached(far int) string {
	return fmt.Sprintf("UPDATE %s SET reached = %s, "+writing+" WHERE reached + %d <= %[2]s", c.d.table(), c.lastValue(), far)
}

// A row that a restore of data has put into an emptied table can't be told from the old one by its columns: it says that fewer values
// were given out than really were. But another transaction has written it. So each UPDATE notes its transaction in the row, next to
// xmin, in which Postgres keeps the same: through VACUUM, freezing, VACUUM FULL, CLUSTER, on replicas and in copies of the files. A copy
// of the row that is inserted has another xmin and the old note. An UPDATE of such a row keeps it known (0 is no transaction), so only
// the first connection changes that, with the epoch: while others are connected they would go on with the lower one. What else rewrites
// a row, by hand or with a tool that copies tables, costs an epoch too. Its number is that of 32 bits, as in xmin; the statements are
// not in subtransactions, which have other numbers.
const (
	noted    = "written = xmin::text::bigint"
	writing  = "written = CASE WHEN epoch = 0 OR " + noted + " THEN " + writer + " ELSE 0 END"
	writer   = "pg_current_xact_id()::xid::text::bigint"
	restored = "epoch > 0 AND NOT " + noted
)

// admit makes a token of a value that the sequence has given to a statement which was sent when floor was the largest token.
func (c *conn) admit(ctx context.Context, floor locker.Token, value int64) (locker.Token, error) {
	if c.epoch < int64(floor)>>valueBits {
		if c.leases.Load() == 0 {
			c.End(errOldEpoch) // so that the next one asks for the epoch again
		}
		return 0, errOldEpoch
	}
	t, err := token(c.epoch, value)
	if err == nil && t <= floor {
		if value, err = c.repair(ctx, int64(floor)&maxValue); err == nil {
			t, err = token(c.epoch, value)
		}
		if err == nil && t <= floor {
			err = fmt.Errorf("the sequence of fencing tokens was set back, to %d, and doesn't go on from before", value)
		}
	}
	if err == nil && value >= c.limit.Load() {
		err = c.note(ctx, value)
	}
	if err != nil {
		return 0, err
	}
	c.d.saw(t)
	return t, nil
}

// repair moves a sequence on that was set back to below floor, and takes a value. One connection at a time does that. It is one
// transaction, which is on disk before its turn is over. It goes further than it must, as others may be taking values: they had to take
// more than reachStep of them between two functions of one expression, to be set back by it.
func (c *conn) repair(ctx context.Context, floor int64) (int64, error) {
	to := fmt.Sprintf("greatest(reached, %d) + %d", floor, 2*reachStep)
	r, err := c.exec(ctx, "SELECT pg_advisory_xact_lock("+pair(ownSpace, 0)+"); "+c.moveOn(fmt.Sprint(floor+1), to)+"; "+
		c.noteReached(1)+"; SELECT "+c.next+", reached FROM "+c.d.table())
	if err != nil {
		return 0, err
	}
	last := len(r.Rows) - 1
	c.limit.Store(r.Int(last, 1) + reachStep)
	return r.Int(last, 0), nil
}

// note has it written down that the sequence has reached a value.
func (c *conn) note(ctx context.Context, value int64) error {
	r, err := c.exec(ctx, c.noteReached(reachStep/2)+"; SELECT reached FROM "+c.d.table())
	if err != nil {
		return err
	}
	limit := r.Int(0, 0) + reachStep
	if value >= limit {
		return fmt.Errorf("the sequence of fencing tokens was set back while it was at %d", value)
	}
	c.limit.Store(limit)
	return nil
}

// floor is the largest token that this Locker was given. What is asked for from now on is larger.
func (d *pgDriver) floor() locker.Token { return locker.Token(d.largest.Load()) }

func (d *pgDriver) saw(t locker.Token) {
	for {
		largest := d.largest.Load()
		if int64(t) <= largest || d.largest.CompareAndSwap(largest, int64(t)) {
			return
		}
	}
}

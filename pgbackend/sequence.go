package pgbackend

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/pgsession"
)

// A sequence can go back in two ways that don't change where it comes from, and so don't begin an
// epoch:
//
//   - A crash. nextval writes ahead: one record in the log covers its value and 32 more. After a
//     crash the sequence goes on from the last record that was on disk, and gives values out again.
//     It does so also with synchronous_commit on, where only the statement that wrote the record
//     waits for the disk, and those that get one of the 32 other values meanwhile don't. Here none
//     waits.
//   - The sequence is set back: by setval, by a plain dump that is fed to the database from which
//     it comes, by pg_restore --data-only.
//
// Against both, the row of the epoch has a value that the sequence had reached. A Locker that is
// given a value of reachStep or more above it updates the row before it uses the value. The row is
// on disk when that statement is answered, and its value never falls. So at each moment all values
// that were given out are less than reached + reachStep.
//
// The first connection since all others have ended advances the sequence to that bound, if it isn't
// beyond it. So it doesn't have to know what has happened. Before a connection takes a value it
// takes the mark, an advisory lock in shared mode; locks don't survive a crash. One connection at a
// time looks for marks of others, by trying for the same lock exclusively: it has the turn, which
// is another lock, until the sequence is on disk. Where there is no mark no connection takes values
// meanwhile.
//
// The first connection also raises the epoch if the row was restored, which the row itself shows
// (see wasRestored).
//
// While others are connected the server doesn't crash, but the sequence may be set back. A new
// connection notices that if the sequence is below reached. Each Locker remembers the largest token
// that it was given, and notices when a later one isn't larger. A Locker that notices advances the
// sequence beyond both. The epoch isn't raised then, because the others would go on with the lower
// epoch; but they use the same sequence. What remains: until one of them notices, a Locker that has
// seen no larger value gives out values that others had before.

// reachStep is how many values may be given out before the next one is written down.
const reachStep = 1 << 16

// tokenSource is where one connection takes the values of tokens. Its methods are called by one
// goroutine while the connection is made ready; then only admit is called, by many.
type tokenSource struct {
	session *pgsession.Session
	exec    func(ctx context.Context, sql string) (*pgsession.Call, error)
	schema  schema
	known   *knownEpoch

	presence uint32 // the number of the presence lock
	serverID serverID
	epoch    int64
	seq      string       // SQL: the sequence
	next     string       // SQL: its next value
	limit    atomic.Int64 // values from here on may only be used when that was written down

	noting chan struct{} // full while a goroutine does that
}

// advance moves the sequence beyond all values that may have been given out, if that is needed. It
// is one message, so that nobody has to wait for a client that has the turn. Transactions surround
// all that may fail while it has the turn, which is the session's and outlives an error: the server
// ends a session that is idle in a transaction after a second.
func (t *tokenSource) advance(ctx context.Context) error {
	turn, mark := pair(ownSpace, 0), t.mark()
	first := "CASE WHEN pg_try_advisory_lock(" + mark + ") THEN pg_advisory_unlock(" + mark + ") ELSE false END"
	limit := fmt.Sprintf("CASE WHEN %s THEN reached + %d ELSE reached END", first, reachStep)
	r, err := t.exec(ctx, "BEGIN; SELECT pg_advisory_lock("+turn+"); COMMIT; "+
		fmt.Sprintf("BEGIN; SET LOCAL synchronous_commit = on; UPDATE %s SET epoch = epoch + 1, written = "+thisWriter+" WHERE "+wasRestored+" AND %s; COMMIT; ", t.schema.table(), first)+
		"BEGIN; "+t.moveOn(limit, fmt.Sprintf("reached + %d", reachStep))+"; "+t.noteReached(reachStep/2)+"; COMMIT; "+
		"BEGIN; SELECT pg_advisory_lock_shared("+mark+"); SELECT pg_advisory_unlock("+turn+"); COMMIT; SELECT reached, epoch FROM "+t.schema.table())
	if err != nil {
		return err
	}
	last := len(r.Rows) - 1
	t.limit.Store(r.Int(last, 0) + reachStep)
	t.epoch = r.Int(last, 1)
	_, err = makeToken(t.epoch, 1)
	return err
}

// mark is the mark as SQL.
func (t *tokenSource) mark() string { return pair(ownSpace, int32(t.serverID.sequence)) } //nolint:gosec // an OID has 32 bits

// lastValue is SQL: the last value of the sequence; 0 if there was none.
func (t *tokenSource) lastValue() string {
	return fmt.Sprintf("coalesce(pg_sequence_last_value(%s), 0)", t.seq)
}

// moveOn is SQL that sets the sequence to a value if it is below a limit. Both are SQL.
func (t *tokenSource) moveOn(limit, to string) string {
	return fmt.Sprintf("SELECT CASE WHEN %s < %s THEN setval(%s, %s) END FROM %s", t.lastValue(), limit, t.seq, to, t.schema.table())
}

// noteReached is SQL that writes down how far the sequence is, if that is far enough from what was
// written.
func (t *tokenSource) noteReached(far int) string {
	return fmt.Sprintf("UPDATE %s SET reached = %s, "+noteWriter+" WHERE reached + %d <= %[2]s", t.schema.table(), t.lastValue(), far)
}

// A row that a restore of data has put into an emptied table can't be distinguished from the old
// one by its other columns: it says that fewer values were given out than really were. But another
// transaction has written it. So each UPDATE notes its transaction in the row, next to xmin, in
// which Postgres keeps the same: through VACUUM, freezing, VACUUM FULL, CLUSTER, on replicas and in
// copies of the files. A copy of the row that is inserted has another xmin and the old note. An
// UPDATE of such a row keeps it known (0 is no transaction), so only the first connection changes
// that, with the epoch: while others are connected they would go on with the lower one. Anything
// else that rewrites the row, by hand or with a tool that copies tables, costs an epoch, too. Its
// number has 32 bits, as in xmin; the statements are not in subtransactions, which have
// other numbers.
const (
	isNoted     = "written = xmin::text::bigint"                                                        // the row has the transaction that has written it
	thisWriter  = "pg_current_xact_id()::xid::text::bigint"                                             // this transaction, as the row has it
	noteWriter  = "written = CASE WHEN epoch = 0 OR " + isNoted + " THEN " + thisWriter + " ELSE 0 END" // of an UPDATE
	wasRestored = "epoch > 0 AND NOT " + isNoted
)

// admit makes a token of a value that the sequence has given to a statement which was sent when
// floor was the largest token. The error is errOldEpoch if no token of this connection can be
// larger.
func (t *tokenSource) admit(ctx context.Context, floor locker.Token, value int64) (locker.Token, error) {
	if t.epoch < int64(floor)>>valueBits {
		return 0, errOldEpoch
	}
	token, err := makeToken(t.epoch, value)
	if err == nil && token <= floor {
		if value, err = t.repair(ctx, int64(floor)&maxValue); err == nil {
			token, err = makeToken(t.epoch, value)
		}
		if err == nil && token <= floor {
			err = fmt.Errorf("the sequence of fencing tokens was set back, to %d, and doesn't go on from before", value)
		}
	}
	if err == nil && value >= t.limit.Load() {
		err = t.note(ctx, value)
	}
	if err != nil {
		return 0, err
	}
	return token, nil
}

// repair moves a sequence on that was set back to below floor, and takes a value. One connection at
// a time does that. It is one transaction, which is on disk before its turn is over. It goes
// further than it must, because others may be taking values: only if they took more than reachStep
// of them between two functions of one expression would they be set back by it.
func (t *tokenSource) repair(ctx context.Context, floor int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	to := fmt.Sprintf("greatest(reached, %d) + %d", floor, 2*reachStep)
	r, err := t.exec(ctx, t.session.LockTimeout()+pgsession.OnDisk+"SELECT pg_advisory_xact_lock("+pair(ownSpace, 0)+"); "+t.moveOn(fmt.Sprint(floor+1), to)+"; "+
		t.noteReached(1)+"; SELECT "+t.next+", reached FROM "+t.schema.table())
	if err != nil {
		return 0, err
	}
	last := len(r.Rows) - 1
	t.limit.Store(r.Int(last, 1) + reachStep)
	return r.Int(last, 0), nil
}

// note writes down that the sequence has reached a value.
func (t *tokenSource) note(ctx context.Context, value int64) error {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	select { // one notes for all that wait
	case t.noting <- struct{}{}:
		defer func() { <-t.noting }()
	case <-ctx.Done():
		return locker.ErrNoAnswer
	}
	if value < t.limit.Load() {
		return nil
	}
	r, err := t.exec(ctx, t.session.LockTimeout()+pgsession.OnDisk+t.noteReached(reachStep/2)+"; SELECT reached FROM "+t.schema.table())
	if err != nil {
		return err
	}
	limit := r.Int(0, 0) + reachStep
	if value >= limit {
		return fmt.Errorf("the sequence of fencing tokens was set back while it was at %d", value)
	}
	t.limit.Store(limit)
	return nil
}

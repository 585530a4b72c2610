package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// The lock table knows sessions and no tokens. The row that the holder has written into the table
// of leases (labels.go) has the token: if a session has the lock, and there is a row of the key and
// that session with a token, the lease with this token has the lock. So only a lease with such a
// row can be taken away: one that was renewed after the first fifth of its TTL.
//
// One statement finds the session and the row, locks the row and writes the breach there. Until the
// row is deleted the session doesn't take the lock again for another lease, and a row that is locked
// isn't deleted.
//
// A look comes before that statement. It says why there is no such lease. It is also needed if the
// answer to the statement is lost, and the next look finds no such lease: the look before has shown
// that there was one.
//
// A lease that is attached to a waiter's connection may be about to move. The holder looks at that
// connection's row once more after the move, but the breach may be written even later. So Break
// looks again, and if the lease has moved meanwhile, its next row is marked as well.

var _ driver.Breaker = (*pgDriver)(nil)

// Break marks the row of the lease, or ends the session that the lease is attached to.
func (d *pgDriver) Break(ctx context.Context, name string, token locker.Token, breach locker.Breach) (locker.Effect, error) {
	if d.guarantees.Break == locker.BreakNone {
		return locker.Effect{}, fmt.Errorf("%w: this Locker was opened without labels, or the table %s is missing, is an old one, or may not be written to; pgbackend.Migration has the SQL",
			locker.ErrNoBreaker, d.schema.leases())
	}
	b := breaking{d: d, key: d.keyOf(string(d.schema), d.prefix, textOf(name, breach.Slot)), token: token, breach: breach}
	for {
		effect, done, err := b.try(ctx)
		if !done && err == nil && !kit.Sleep(ctx, breakPause) {
			err = locker.ErrNoAnswer
		}
		if done || err != nil {
			return effect, b.explain(err)
		}
	}
}

// breakPause is between two tries, where the row was written or moved meanwhile.
const breakPause = 10 * time.Millisecond

// breaking is one call of Break.
type breaking struct {
	d        *pgDriver
	key      key
	token    locker.Token
	breach   locker.Breach
	effect   locker.Effect
	isMarked bool // the row of a waiter's connection was
	isLate   bool // a request has perhaps been executed, without an answer, when the lease had the lock
}

// explain says also that the lease is marked, if no answer came in time. The lease has moved since then,
// or has ended: a holder that has written no token may have this lease or the next one.
func (b *breaking) explain(err error) error {
	if !b.isMarked || !errors.Is(err, locker.ErrNoAnswer) {
		return err
	}
	return fmt.Errorf("%w; the lease is marked, and may have ended: look again after a third of the TTL, when its holder, or the next one, has written its token", err)
}

// try does it once. done is false if it has to be tried again.
func (b *breaking) try(ctx context.Context) (effect locker.Effect, done bool, err error) {
	holds, isBroken, unknown := b.look(ctx)
	switch {
	case unknown != nil && !errors.Is(unknown, errNoToken):
		return effect, false, unknown
	case unknown == nil && !holds: // it had it before, and the lock is free for others
		return locker.Effect{Others: b.effect.Others}, true, nil
	case unknown == nil && b.isMarked && isBroken:
		return b.effect, true, nil
	}
	c, err := b.d.anyConn(ctx, b.d.ttl)
	if err != nil {
		return effect, false, err
	}
	if b.breach.AtOnce {
		effect, done, err = b.end(ctx, c)
	} else {
		effect, done, err = b.mark(ctx, c)
	}
	switch {
	case pgsession.Ended(err): // also because the holder's session was this one
		b.isLate = b.isLate || holds && !errors.Is(err, kit.ErrNotSent)
		return effect, false, nil
	case pgsession.Says(err, codePermission):
		return effect, false, fmt.Errorf("%w; a permission is missing: %w", locker.ErrNoBreaker, err)
	case pgsession.Says(err, codeNoTable, codeNoColumn, codeNoSchema):
		return effect, false, fmt.Errorf("%w: the table of leases is missing or an old one; pgbackend.Migration has the SQL: %w", locker.ErrNoBreaker, err)
	case err == nil && !done && unknown != nil: // nor has anything been written since
		return effect, false, unknown
	}
	return effect, done, err
}

// mark writes the breach into the lease's row. It isn't done if there is no such row, or if the
// lease may be about to move.
func (b *breaking) mark(ctx context.Context, c *conn) (effect locker.Effect, done bool, err error) {
	r, err := c.exec(ctx, b.d.schema.markLease(b.key, c.tokens.serverID.sequence, b.token, b.breach))
	if err != nil || len(r.Rows) == 0 {
		return effect, false, err
	}
	b.effect.Within = -1
	if ms := r.Int(0, 0); ms > 0 { // else somebody else has written the row
		b.effect.Within = time.Duration(min(ms, pgsession.MaxIdleTimeout.Milliseconds())) * time.Millisecond
	}
	b.isMarked = r.Bool(0, 1)
	return b.effect, !b.isMarked, nil
}

// end ends the session, and waits until the server has ended it. If that is refused because other leases
// would end, effect has their number.
//
// The first request ends a session without other leases, and only counts them otherwise. So their number
// is known also if no answer comes to the second one, because the session is the one that sends it.
func (b *breaking) end(ctx context.Context, c *conn) (effect locker.Effect, done bool, err error) {
	ended, others, err := b.endSession(ctx, c, false)
	switch {
	case err != nil || len(ended) == 0:
		return effect, false, err
	case others > 0 && !b.breach.WithOthers:
		return locker.Effect{Others: others}, false, fmt.Errorf("%w: at once, %d other leases of the same connection end with this one; want WithOthers", locker.ErrOption, others)
	case others > 0:
		counted := others
		ended, others, err = b.endSession(ctx, c, true)
		if pgsession.Ended(err) && !errors.Is(err, kit.ErrNotSent) {
			b.effect.Others = counted
		}
		if err != nil || len(ended) == 0 {
			return effect, false, err
		}
	}
	b.effect.Others = others
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		r, err := c.exec(ctx, countSessions(ended))
		if err != nil || r.Int(0, 0) == 0 {
			return b.effect, err == nil, err
		}
		if !kit.Sleep(ctx, pause) {
			return locker.Effect{}, false, fmt.Errorf("%w: the server has been told to end the session, and it is still there", locker.ErrNoAnswer)
		}
	}
}

// endSession ends the session that has the lock by the lease. Where other leases would end with it, it
// does so only if withOthers is true. ended are the presences of the session; none: there is no such
// lease any more.
func (b *breaking) endSession(ctx context.Context, c *conn, withOthers bool) (ended []uint32, others int, err error) {
	r, err := c.exec(ctx, b.d.schema.endSession(b.key, c.tokens.serverID.sequence, b.token, withOthers))
	if err != nil {
		return nil, 0, err
	}
	for i, row := range r.Rows {
		if len(row) == columnsOfVictim {
			ended = append(ended, uint32(r.Int(i, 0))) //nolint:gosec // a presence
			others += int(r.Int(i, 1))
		}
	}
	return ended, others, nil
}

// look reports whether the lease with the token has the lock, and whether its row has a breach. If
// it doesn't hold it any more, and had it before, the error is nil.
func (b *breaking) look(ctx context.Context) (holds, isBroken bool, err error) {
	found, err := b.d.lookAt(ctx, b.key)
	if err != nil {
		return false, false, err
	}
	holder := found.statusOf(b.key, 0).Holder
	isKnown := holder == nil || holder.Token != 0
	switch {
	case holder != nil && holder.Token == b.token:
		return true, holder.Broken != nil, nil
	case b.isMarked && !isKnown: // it has moved, maybe, and gets another row
		return true, false, nil
	case b.isMarked, b.isLate && (isKnown || b.breach.AtOnce):
		return false, false, nil
	case isKnown:
		return false, false, locker.ErrNotHolder
	case !found.isOfLocker(b.key):
		return false, false, fmt.Errorf("%w: a transaction or another program has the lock; end its session, process %s", locker.ErrNoBreaker, holder.Session)
	}
	return false, false, errNoToken
}

// errNoToken says that nobody knows whether the lease with a token has the lock.
var errNoToken = errors.New("the holder has not written its token yet, and does so with its first renewal, after a third of its TTL; try again when Inspect shows the token")

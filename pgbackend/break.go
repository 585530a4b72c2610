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
// A lease that is attached to a waiter's connection may be about to move (move.go). The holder looks
// at that connection's row once more after the move, but the breach may be written even later, and at
// once the session may be ended when the lease has just left it. So after such a statement, and after
// one whose answer is lost, Break looks again. If the lease has moved meanwhile, its next row is
// marked as well, or its next session is ended. break_look.go says how a look finds that it has ended.

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
	isMarked bool // the lease was
	isAsked  bool // the lease was marked, or its session was ended, or perhaps: an answer is lost
	isUnsure bool // an answer is lost, and nobody knows whether the lease had the lock

	// Where the lease was seen last. No sessions: it was not seen yet.
	server   serverID
	sessions []string // their processes
	mayMove  bool     // one of them had the gate, so it is a waiter's connection
}

// explain says also what has perhaps happened to the lease, if no answer came in time.
func (b *breaking) explain(err error) error {
	if b.isUnsure && errors.Is(err, errNoToken) {
		err = locker.ErrNoAnswer
	}
	if !b.isAsked && !b.isUnsure || !errors.Is(err, locker.ErrNoAnswer) || errors.Is(err, errTakenOver) {
		return err
	}
	what := "may be marked, and may have ended"
	switch {
	case b.isMarked:
		what = "is marked, and may have ended"
	case b.breach.AtOnce:
		what = "may have ended"
	}
	return fmt.Errorf("%w; the lease %s: look again after a third of the TTL, when its holder, or the next one, has written its token", err, what)
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
	var found bool
	if b.breach.AtOnce {
		found, err = b.end(ctx, c)
	} else {
		found, err = b.mark(ctx, c)
	}
	if isLost(err) {
		b.isAsked, b.isUnsure = b.isAsked || holds, b.isUnsure || !holds
	}
	switch {
	case pgsession.Ended(err): // also because the holder's session was this one
		return effect, false, nil
	case pgsession.Says(err, codePermission):
		return effect, false, fmt.Errorf("%w; a permission is missing: %w", locker.ErrNoBreaker, err)
	case pgsession.Says(err, codeNoTable, codeNoColumn, codeNoSchema):
		return effect, false, fmt.Errorf("%w: the table of leases is missing or an old one; pgbackend.Migration has the SQL: %w", locker.ErrNoBreaker, err)
	case err == nil && !found && unknown != nil: // nor has anything been written since
		return effect, false, unknown
	}
	return b.effect, found && !b.mayMove, err
}

// isLost reports whether err says that the answer to a request is lost: it may have been executed.
func isLost(err error) bool {
	return (pgsession.Ended(err) || errors.Is(err, locker.ErrNoAnswer)) && !errors.Is(err, kit.ErrNotSent)
}

// mark writes the breach into the lease's row. It is false if there is no such row.
func (b *breaking) mark(ctx context.Context, c *conn) (found bool, err error) {
	r, err := c.exec(ctx, b.d.schema.markLease(b.key, c.tokens.serverID.sequence, b.token, b.breach))
	if err != nil || len(r.Rows) == 0 {
		return false, err
	}
	b.effect.Within = -1
	if ms := r.Int(0, 0); ms > 0 { // else somebody else has written the row
		b.effect.Within = time.Duration(min(ms, pgsession.MaxIdleTimeout.Milliseconds())) * time.Millisecond
	}
	b.isMarked, b.isAsked = true, true
	b.saw(c.tokens.serverID, r.Bool(0, 1), r.Value(0, 2))
	return true, nil
}

// end ends the session, and waits until the server has ended it. It is false if no session has the lock
// by the lease. If that is refused because other leases would end, b.effect has their number.
//
// The first request ends a session without other leases, and only counts them otherwise. So their number
// is known also if no answer comes to the second one, because the session is the one that sends it.
func (b *breaking) end(ctx context.Context, c *conn) (found bool, err error) {
	ended, others, err := b.endSession(ctx, c, false)
	switch {
	case err != nil || len(ended) == 0:
		return false, err
	case others > 0 && !b.breach.WithOthers:
		b.effect.Others = others
		return true, fmt.Errorf("%w: at once, %d other leases of the same connection end with this one; want WithOthers", locker.ErrOption, others)
	case others > 0:
		counted := others
		ended, others, err = b.endSession(ctx, c, true)
		if isLost(err) {
			b.effect.Others = counted
		}
		if err != nil || len(ended) == 0 {
			return false, err
		}
	}
	b.effect.Others = others
	b.isAsked = true
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		r, err := c.exec(ctx, countSessions(ended))
		if err != nil || r.Int(0, 0) == 0 {
			return true, err
		}
		if !kit.Sleep(ctx, pause) {
			return true, fmt.Errorf("%w: the server has been told to end the session, and it is still there", locker.ErrNoAnswer)
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
	var sessions []string
	mayMove := false
	for i, row := range r.Rows {
		if len(row) == columnsOfVictim {
			ended = append(ended, uint32(r.Int(i, 0))) //nolint:gosec // a presence
			others += int(r.Int(i, 1))
			sessions = append(sessions, r.Value(i, 2))
			mayMove = mayMove || r.Bool(i, 3)
		}
	}
	if len(ended) > 0 {
		b.saw(c.tokens.serverID, mayMove, sessions...)
	}
	return ended, others, nil
}

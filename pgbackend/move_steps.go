package pgbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// step executes a statement of a move on c, or reads its answer if that didn't come in time before.
// An advisory lock of a session doesn't belong to the transaction. So a statement that has returned
// its row was executed, also if the server reports an error after the row.
func (l *lock) step(ctx context.Context, c *conn, sql string) (*pgsession.Call, error) {
	l.mu.Lock()
	r := l.pending
	l.mu.Unlock()
	if r == nil {
		var err error
		if r, err = c.Begin(ctx, sql); err != nil {
			return c.endIfSilent(nil, err)
		}
		l.setPending(r)
	}
	if _, err := c.endIfSilent(r, c.Wait(ctx, r)); err != nil && !pgsession.Refused(err) {
		if errors.Is(err, kit.ErrNotSent) {
			l.setPending(nil)
		}
		return nil, err
	}
	l.setPending(nil)
	if err := r.Err(); !pgsession.Refused(err) || !r.Bool(0, 0) {
		return r, err
	}
	return r, nil // the row came before the error, and what was executed stays: a cancel that was late
}

func (l *lock) setPending(r *pgsession.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = r
}

// downgrade is step 1.
func (l *lock) downgrade(ctx context.Context, waiter *conn) error {
	l.setState(downgrading)
	r, err := l.step(ctx, waiter, fmt.Sprintf("SELECT CASE WHEN pg_advisory_lock_shared(%s) IS NOT NULL THEN pg_advisory_unlock(%[1]s) END", l.key.lock()))
	switch {
	case errors.Is(err, kit.ErrNotSent):
		l.setState(onWaiter)
		return err
	case pgsession.Refused(err): // it has the lock in one of the modes, or in both
		l.setState(notMoving)
		return err
	case err != nil:
		return err
	case !r.Bool(0, 0):
		waiter.End(errNotThere)
		return waiter.Err()
	}
	l.setState(downgraded)
	return nil
}

var errNotThere = errors.New("it doesn't have the lock any more")

// takeOver is step 2, in half of the time: if S is silent, W has to be renewed. If it is not known
// whether S has the lock, Release gives it back, or the next try, before it takes it again.
func (l *lock) takeOver(ctx context.Context, c *conn, again bool) error {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	l.mu.Lock()
	l.shared, l.sharedHas = c, inSharedMode
	l.late = lateGive{} // of an earlier try: what is given back by it comes before what c gets now
	l.mu.Unlock()
	sql := fmt.Sprintf("pg_try_advisory_lock_shared(%s)", l.key.lock())
	if again {
		sql = fmt.Sprintf("CASE WHEN pg_advisory_unlock_shared(%s) IS NOT NULL THEN %s END", l.key.lock(), sql)
	}
	r, err := c.execUrgent(ctx, "SELECT "+sql)
	switch {
	case errors.Is(err, kit.ErrNotSent):
		if !again {
			l.leftShared(c)
		}
		return err
	case err != nil:
		return err
	case !r.Bool(0, 0): // a session waits that hasn't come through the gate
		l.leftShared(c)
		return errOver
	}
	return l.attachAlso(c)
}

// giveOnWaiter is step 3, or 5: W gives something back that it has.
func (l *lock) giveOnWaiter(ctx context.Context, waiter *conn, function, what string) error {
	r, err := l.step(ctx, waiter, fmt.Sprintf("SELECT %s(%s)", function, what))
	if err == nil && !r.Bool(0, 0) {
		waiter.End(errNotThere)
		err = waiter.Err()
	}
	return err
}

// upgrade is step 4. If another session has the lock as well, or the statement fails, the error is
// nil, and the state says so.
func (l *lock) upgrade(ctx context.Context, c *conn) error {
	l.setStates(upgrading, inEitherMode)
	r, err := l.step(ctx, c, fmt.Sprintf("SELECT CASE WHEN pg_try_advisory_lock(%s) THEN pg_advisory_unlock_shared(%[1]s) END", l.key.lock()))
	switch {
	case errors.Is(err, kit.ErrNotSent):
		l.setStates(handedOver, inSharedMode)
	case pgsession.Refused(err):
		l.setStates(undecided, inEitherMode)
		return nil
	case err != nil:
	case r.Value(0, 0) == "":
		l.setStates(handedOver, inSharedMode)
	case !r.Bool(0, 0):
		c.End(errNotThere)
		err = c.Err()
	default:
		l.setStates(upgraded, exclusively)
	}
	return err
}

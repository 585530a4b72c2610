package pgbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// A lease that was waited for is attached to its waiter's connection at first. It moves to the
// shared connection, so that connections are needed for waiters alone. The move has five steps on
// two sessions: W, the waiter's, and S, the shared one. A is the lock, G its gate. At the start W
// has A exclusively, and G.
//
//	step  on  statement                                                                 after it
//	1     W   take A in shared mode, too, and give A back that is held exclusively      W has A in shared mode, and G
//	2     S   take A in shared mode, without waiting                                    both have A in shared mode
//	3     W   give A back                                                               S has A in shared mode, W has G
//	4     S   take A exclusively, without waiting, and give A back in shared mode       S has A exclusively, W has G
//	5     W   give G back                                                               S has A exclusively
//
// After each step A is held by W or by S, so another session that wants A exclusively is refused,
// or goes on waiting. A session that wants A in shared mode (no version asks for that yet) must ask
// for G first. W has G until S has A exclusively, so that session is refused, too.
//
// Steps 2 and 4 would fail if somebody waited for A: Postgres lets nobody pass a waiter. The gate
// prevents that: all waiters wait for G, and W has G until step 5. If another program uses the same
// advisory key, step 4 is refused. Then the gate stays closed, the lease stays attached to both
// sessions, and the next renewal takes step 4 again.
//
// Step 2 would also succeed if W's session had ended just before, and somebody else had had A
// since. So the lease stays attached to W until W confirms that it gives A back: that answer proves
// that W had A without a gap until after S had it. From W's answer to step 3 on, the end of W would
// open the gate while S has A in shared mode only. So from step 3 until W has answered step 5 the
// lease is attached to both sessions, the end of either is the end of the lease, and the base of
// the lease is the older one of both.
//
// S is asked after W was renewed for the last time, so a base that was reported for W stays true.
// While a lock moves, the move is its renewal. If the answer to a step doesn't come in time, the
// step goes on, and the next renewal reads the answer.
//
// If step 4 fails (because an operator has cancelled the statement, for example), nobody knows in
// which of the modes S has A. Then the move stops: the lease stays attached to both sessions until
// it is released, and the release gives A back in both modes.

// move moves the lease of l, and returns its base. Where the lease can't be moved now it is renewed
// where it is.
func (l *lock) move(ctx context.Context) (driver.Instant, error) {
	if err := l.lockMove(ctx); err != nil {
		return 0, err
	}
	defer l.unlockMove()
	return l.moveLocked(ctx)
}

// moveLocked is move for a goroutine that has l.moveLock.
func (l *lock) moveLocked(ctx context.Context) (driver.Instant, error) {
	l.mu.Lock()
	waiter, attached, state, shared := l.waiter, l.attached, l.state, l.shared
	l.mu.Unlock()
	switch {
	case attached == nil:
		return 0, errOver
	case attached != waiter || state == notMoving:
		return attached.confirm(ctx)
	case state >= handingOver:
		return l.finishMove(ctx, waiter, shared)
	}
	c := l.target(ctx, waiter, shared)
	if c == nil {
		return waiter.confirm(ctx)
	}
	if state != downgraded {
		if err := l.downgrade(ctx, waiter); err != nil {
			c.unreserve(l)
			return 0, err
		}
	}
	if err := l.takeOver(ctx, c, shared == c); err != nil {
		return waiter.confirm(ctx)
	}
	return l.finishMove(ctx, waiter, c)
}

// target reserves the key on the shared connection, if that leads where the waiter's connection
// leads. Otherwise, or while the shared connection is being made, target is nil. before is the one
// on which the lock may be held since an earlier try.
func (l *lock) target(ctx context.Context, waiter, before *conn) *conn {
	c := l.pool.sharedWithoutWaiting(ctx)
	if c == nil || c.tokens.serverID != waiter.tokens.serverID {
		return nil
	}
	if before != nil && before != c && l.leaveBefore(ctx) != nil || c.reserve(l) != nil {
		return nil
	}
	return c
}

// leaveBefore gives the lock back on the shared connection of before, in half of the time: if that
// is silent, W has to be renewed. The request goes on then. It does no harm however late it is
// executed: nothing more is reserved on that connection.
func (l *lock) leaveBefore(ctx context.Context) error {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	l.mu.Lock()
	c, has := l.shared, l.sharedHas
	l.mu.Unlock()
	given := make(chan error, 1)
	go func() { given <- c.unlock(ctx, l.key, has) }() // ends within the time limit of a message
	select {
	case err := <-given:
		return l.removedFromShared(ctx, c, err)
	case <-ctx.Done():
		return kit.ErrNoAnswer
	}
}

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
		l.mu.Lock()
		l.pending = r
		l.mu.Unlock()
	}
	if _, err := c.endIfSilent(r, c.Wait(ctx, r)); err != nil && !pgsession.Refused(err) {
		return nil, err
	}
	l.mu.Lock()
	l.pending = nil
	l.mu.Unlock()
	if err := r.Err(); !pgsession.Refused(err) || !r.Bool(0, 0) {
		return r, err
	}
	return r, nil // the row came before the error, and what was executed stays: a cancel that was late
}

// downgrade is step 1.
func (l *lock) downgrade(ctx context.Context, waiter *conn) error {
	l.setState(downgrading)
	r, err := l.step(ctx, waiter, fmt.Sprintf("SELECT CASE WHEN pg_advisory_lock_shared(%s) IS NOT NULL THEN pg_advisory_unlock(%[1]s) END", l.key.lock()))
	switch {
	case errors.Is(err, kit.ErrNotSent):
		l.setState(granted)
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

// finishMove takes the steps 3 to 5, as far as it can. Where a move doesn't end, both sessions are
// asked, and the base is the older of theirs.
func (l *lock) finishMove(ctx context.Context, waiter, c *conn) (driver.Instant, error) {
	if l.currentState() == handingOver {
		if err := l.giveOnWaiter(ctx, waiter, "pg_advisory_unlock_shared", l.key.lock()); err != nil {
			return 0, err
		}
		l.setState(handedOver)
	}
	if s := l.currentState(); s == handedOver || s == upgrading {
		if err := l.upgrade(ctx, c); err != nil {
			return 0, err
		}
	}
	if s := l.currentState(); s == handedOver || s == undecided {
		return confirmBoth(ctx, waiter, c)
	}
	l.setState(openingGate)
	if err := l.giveOnWaiter(ctx, waiter, "pg_advisory_unlock", l.key.gate()); err != nil {
		return 0, err
	}
	if err := l.attach(c); err != nil {
		err = asLoss(err)
		l.notifyLost(err)
		return 0, err
	}
	l.returnWaiter(waiter)
	return c.LastAnswered(), nil
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

func (l *lock) setState(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
}

func (l *lock) setStates(s state, has holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.sharedHas = s, has
}

func (l *lock) currentState() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// confirmBoth asks both sessions whether they are the same as before. The base is the older one.
func confirmBoth(ctx context.Context, waiter, c *conn) (driver.Instant, error) {
	var onShared driver.Instant
	var err error
	var asked sync.WaitGroup
	asked.Go(func() { onShared, err = c.confirm(ctx) })
	onWaiter, waiterErr := waiter.confirm(ctx)
	asked.Wait()
	return min(onWaiter, onShared), cmp.Or(waiterErr, err)
}

// moveOne moves the lease of a waiter's connection, which is free then. It is false when there is
// none. A renewal has to wait for that, so it may not take long.
func (p *pool) moveOne(ctx context.Context) bool {
	ctx, cancel := callContext(ctx, min(maxCall, p.ttl/8))
	defer cancel()
	for _, l := range p.leasesOfWaiters() {
		select {
		case l.moveLock <- struct{}{}:
		default: // it is being moved, or released
			continue
		}
		_, err := l.moveLocked(ctx)
		l.unlockMove()
		if _, waiter, _ := l.attachment(); err == nil && waiter == nil {
			return true
		}
	}
	return false
}

// leasesOfWaiters lists the locks that were granted on waiters' connections of a pool and are still
// there.
func (p *pool) leasesOfWaiters() []*lock {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	var locks []*lock
	for c := range p.d.conns {
		if !c.isWaiter || c.pool != p || c.leases.Load() == 0 {
			continue
		}
		c.mu.Lock()
		for _, l := range c.reserved {
			locks = append(locks, l)
		}
		c.mu.Unlock()
	}
	return locks
}

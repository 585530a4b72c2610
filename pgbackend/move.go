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

// A lease that was waited for hangs on its waiter's connection at first. It moves to the shared connection, so that connections are needed
// for waiters alone. The move has five steps on two sessions: W, the waiter's, and S, the shared one. A is the lock, G its gate. At the start
// W has A exclusively, and G.
//
//	step  on  statement                                                                 after it
//	1     W   take A in shared mode, too, and give A back that is held exclusively      W has A in shared mode, and G
//	2     S   take A in shared mode, without waiting                                    both have A in shared mode
//	3     W   give A back                                                               S has A in shared mode, W has G
//	4     S   take A exclusively, without waiting, and give A back in shared mode       S has A exclusively, W has G
//	5     W   give G back                                                               S has A exclusively
//
// After each step A is held by W or by S, so another session that wants A exclusively is refused, or goes on waiting. A session that wants A
// in shared mode (no version asks for that yet) is refused as well once the move is over. Until then it must not be granted either: whoever
// asks for that tries for G first, which W has.
//
// Steps 2 and 4 would fail if somebody waited for A: Postgres lets nobody pass a waiter. The gate prevents that: all who wait, wait for G, and
// W has G until step 5. If somebody uses the same advisory key for another purpose, step 4 is refused: then the gate stays closed, the
// lease hangs on both sessions, and the next renewal takes step 4 again.
//
// Step 2 would also succeed if W's session had ended just before, and somebody else had had A since. So the lease hangs on W until W itself
// confirms that it gives A back: that answer proves that W had A without a gap until S had it. From W's answer to step 3 on S is in the same
// position: S has A in shared mode only, and the end of W would open the gate. So from step 3 on until W has answered step 5 the lease hangs
// on both sessions, the end of either is the end of the lease, and its base is the older one of both.
//
// S is asked after W was renewed for the last time, so a base that was reported for W stays true. While a lock moves, the move is its
// renewal. If the answer to a step doesn't come in time, the step goes on, and the next renewal reads the answer.
//
// If step 4 fails (an operator has cancelled the statement, say), nobody knows in which of the modes S has A. Then the move ends there: the
// lease hangs on both sessions until it is released, and that gives A back in both modes.

// move moves the lease of l, and returns its base. Where it can't be moved now it is renewed where it is.
func (l *lock) move(ctx context.Context) (driver.Instant, error) {
	if err := l.settle(ctx); err != nil {
		return 0, err
	}
	defer l.settled()
	return l.moveSettling(ctx)
}

// moveSettling is move for whoever has l.settling.
func (l *lock) moveSettling(ctx context.Context) (driver.Instant, error) {
	l.mu.Lock()
	own, hangs, m, at := l.own, l.hangs, l.mode, l.at
	l.mu.Unlock()
	switch {
	case hangs == nil:
		return 0, errOver
	case hangs != own || m == unknown:
		return hangs.stands(ctx)
	case m >= handingOver:
		return l.finishMove(ctx, own, at)
	}
	c := l.target(ctx, own, at)
	if c == nil {
		return own.stands(ctx)
	}
	if m != sharing {
		if err := l.share(ctx, own); err != nil {
			c.unclaim(l)
			return 0, err
		}
	}
	if err := l.takeOver(ctx, c, at == c); err != nil {
		return own.stands(ctx)
	}
	return l.finishMove(ctx, own, c)
}

// target claims the key on the shared connection, if that leads where l's own one leads; else it is nil, while it is being made, say. at is
// one on which the lock may be held since an earlier try.
func (l *lock) target(ctx context.Context, own, at *conn) *conn {
	s, err := l.d.session(l.ttl)
	if err != nil {
		return nil
	}
	c, _ := s.get()
	if c == nil || c.place != own.place || at != nil && at != c && l.leaveShared(ctx) != nil || c.claim(l) != nil {
		return nil
	}
	return c
}

// step executes a statement of a move on c, or reads its answer if that didn't come in time before.
func (l *lock) step(ctx context.Context, c *conn, sql string) (*pgsession.Call, error) {
	l.mu.Lock()
	r := l.moving
	l.mu.Unlock()
	if r == nil {
		var err error
		if r, err = c.Begin(ctx, sql); err != nil {
			return c.watch(nil, err)
		}
		l.mu.Lock()
		l.moving = r
		l.mu.Unlock()
	}
	if _, err := c.watch(r, c.Wait(ctx, r)); err != nil && !pgsession.Refused(err) {
		return nil, err
	}
	l.mu.Lock()
	l.moving = nil
	l.mu.Unlock()
	return r, r.Err()
}

// share is step 1.
func (l *lock) share(ctx context.Context, own *conn) error {
	l.setMode(downgrading)
	r, err := l.step(ctx, own, fmt.Sprintf("SELECT CASE WHEN pg_advisory_lock_shared(%s) IS NOT NULL THEN pg_advisory_unlock(%[1]s) END", l.key.lock()))
	switch {
	case errors.Is(err, kit.ErrNotSent):
		l.setMode(exclusive)
		return err
	case pgsession.Refused(err): // it has the lock in one of the modes, or in both
		l.setMode(unknown)
		return err
	case err != nil:
		return err
	case !r.Bool(0, 0):
		own.End(errNotThere)
		return own.Err()
	}
	l.setMode(sharing)
	return nil
}

var errNotThere = errors.New("it doesn't have the lock any more")

func (l *lock) setMode(m mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = m
}

// takeOver is step 2, in half of the time: if S is silent, W has to be renewed. If it is not known whether S has the lock, Release
// will give it back, or the next try, before it takes it again.
func (l *lock) takeOver(ctx context.Context, c *conn, again bool) error {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	l.mu.Lock()
	l.at, l.atHas = c, inSharedMode
	l.mu.Unlock()
	sql := fmt.Sprintf("pg_try_advisory_lock_shared(%s)", l.key.lock())
	if again {
		sql = fmt.Sprintf("CASE WHEN pg_advisory_unlock_shared(%s) IS NOT NULL THEN %s END", l.key.lock(), sql)
	}
	r, err := c.execUrgent(ctx, "SELECT "+sql)
	switch {
	case errors.Is(err, kit.ErrNotSent):
		if !again {
			l.letGo(c)
		}
		return err
	case err != nil:
		return err
	case !r.Bool(0, 0): // somebody waits who hasn't come through the gate
		l.letGo(c)
		return errOver
	}
	return l.inherits(c)
}

// finishMove takes the steps 3 to 5, as far as it can. Where a move doesn't end, both sessions are asked, and the base is the older of theirs.
func (l *lock) finishMove(ctx context.Context, own, c *conn) (driver.Instant, error) {
	if m := l.modeNow(); m == handingOver {
		if err := l.giveOnOwn(ctx, own, "pg_advisory_unlock_shared", l.key.lock()); err != nil {
			return 0, err
		}
		l.setMode(handedOver)
	}
	if m := l.modeNow(); m == handedOver || m == upgrading {
		if err := l.upgrade(ctx, c); err != nil {
			return 0, err
		}
	}
	if m := l.modeNow(); m == handedOver || m == undecided {
		return stillBoth(ctx, own, c)
	}
	l.setMode(openingGate)
	if err := l.giveOnOwn(ctx, own, "pg_advisory_unlock", l.key.gate()); err != nil {
		return 0, err
	}
	if err := l.hang(c); err != nil {
		err = lostWith(err)
		l.tellLost(err)
		return 0, err
	}
	l.giveOwn(own)
	return c.LastAnswered(), nil
}

func (l *lock) modeNow() mode {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mode
}

// giveOnOwn is step 3, or 5: W gives something back that it has.
func (l *lock) giveOnOwn(ctx context.Context, own *conn, function, what string) error {
	r, err := l.step(ctx, own, fmt.Sprintf("SELECT %s(%s)", function, what))
	if err == nil && !r.Bool(0, 0) {
		own.End(errNotThere)
		err = own.Err()
	}
	return err
}

// upgrade is step 4. If somebody else has the lock as well, or the statement fails, the error is nil, and the mode tells.
func (l *lock) upgrade(ctx context.Context, c *conn) error {
	l.setUpgrade(upgrading, inEitherMode)
	r, err := l.step(ctx, c, fmt.Sprintf("SELECT CASE WHEN pg_try_advisory_lock(%s) THEN pg_advisory_unlock_shared(%[1]s) END", l.key.lock()))
	switch {
	case errors.Is(err, kit.ErrNotSent):
		l.setUpgrade(handedOver, inSharedMode)
	case pgsession.Refused(err):
		l.setUpgrade(undecided, inEitherMode)
		return nil
	case err != nil:
	case r.Value(0, 0) == "":
		l.setUpgrade(handedOver, inSharedMode)
	case !r.Bool(0, 0):
		c.End(errNotThere)
		err = c.Err()
	default:
		l.setUpgrade(upgraded, exclusively)
	}
	return err
}

func (l *lock) setUpgrade(m mode, has holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode, l.atHas = m, has
}

// stillBoth asks both sessions whether they are the same as before. The base is the older one.
func stillBoth(ctx context.Context, own, c *conn) (driver.Instant, error) {
	var onShared driver.Instant
	var err error
	var asked sync.WaitGroup
	asked.Go(func() { onShared, err = c.stands(ctx) })
	onOwn, ownErr := own.stands(ctx)
	asked.Wait()
	return min(onOwn, onShared), cmp.Or(ownErr, err)
}

// moveOne moves the lease of some waiter's connection, which is free then. It is false when there is none. A renewal has to wait for that,
// so it may not take long.
func (s *session) moveOne(ctx context.Context) bool {
	ctx, cancel := callContext(ctx, min(maxCall, s.ttl/8))
	defer cancel()
	for _, l := range s.d.leasesOfWaiters(s) {
		select {
		case l.settling <- struct{}{}:
		default: // it is being moved, or released
			continue
		}
		_, err := l.moveSettling(ctx)
		l.settled()
		if err == nil && !l.hasOwn() {
			return true
		}
	}
	return false
}

func (l *lock) hasOwn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own != nil
}

// leasesOfWaiters lists the locks that were granted on waiters' connections of a session and are still there.
func (d *pgDriver) leasesOfWaiters(s *session) []*lock {
	d.mu.Lock()
	defer d.mu.Unlock()
	var locks []*lock
	for c := range d.conns {
		if !c.waits || c.ttl != s.ttl || c.leases.Load() == 0 {
			continue
		}
		c.mu.Lock()
		for _, l := range c.claims {
			locks = append(locks, l)
		}
		c.mu.Unlock()
	}
	return locks
}

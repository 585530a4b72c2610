package pgbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// A lease that was waited for hangs on its waiter's connection at first. It moves to the shared one, so that connections are needed
// for waiters alone, in four steps on two sessions, W and S. At each moment one of them has the lock A, so nobody gets in between:
//
//	W: has A exclusively and the gate G
//	W: takes A in shared mode too, and gives the exclusive one back. Whoever wants A exclusively still waits
//	S: takes A in shared mode, without waiting
//	W: gives A and G back
//
// The third step would fail if somebody waited for A: Postgres lets nobody pass a waiter. That is what the gate is for: who waits,
// waits for G, and W has that until all is done.
//
// It would also succeed if W's session had ended just before, and somebody else had had the lock since. So the lease hangs on W until W
// itself says that it gives A back: with that it has had A for longer than S didn't. While that isn't known the lease may hang on S
// alone as well, so S is kept like W, and the end of either is the end of the lease.
//
// S is asked after W was renewed for the last time, so a base that was reported for W stays true. While a lock moves, the move is its
// renewal. A step whose answer doesn't come in time goes on, and the next renewal hears of it.

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
	case m == leaving:
		return l.leaveFor(ctx, own, at)
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
	return l.leaveFor(ctx, own, c)
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

// step carries a statement out on W, or hears what came of it if the answer didn't come in time before.
func (l *lock) step(ctx context.Context, own *conn, sql string) (*call, error) {
	l.mu.Lock()
	r := l.moving
	l.mu.Unlock()
	if r == nil {
		var err error
		if r, err = own.begin(ctx, sql); err != nil {
			return own.watch(nil, err)
		}
		l.mu.Lock()
		l.moving = r
		l.mu.Unlock()
	}
	if _, err := own.watch(r, own.wait(ctx, r)); err != nil && !failed(err) {
		return nil, err
	}
	l.mu.Lock()
	l.moving = nil
	l.mu.Unlock()
	return r, r.err
}

// share makes the exclusive lock on W a shared one.
func (l *lock) share(ctx context.Context, own *conn) error {
	l.setMode(becoming)
	r, err := l.step(ctx, own, fmt.Sprintf("SELECT CASE WHEN pg_advisory_lock_shared(%s) IS NOT NULL THEN pg_advisory_unlock(%[1]s) END", l.key.lock()))
	switch {
	case errors.Is(err, kit.ErrNotSent):
		l.setMode(exclusive)
		return err
	case failed(err): // it has the lock in one of the modes, or in both
		l.setMode(unknown)
		return err
	case err != nil:
		return err
	case !r.bool(0, 0):
		own.end(errNotThere)
		return own.err()
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

// takeOver takes the lock on S, in half of the time: if S is silent, W has to be renewed. If it is not known whether S has the lock, Release
// will give it back, or the next try, before it takes it again.
func (l *lock) takeOver(ctx context.Context, c *conn, again bool) error {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	l.mu.Lock()
	l.at, l.shared = c, true
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
	case !r.bool(0, 0): // somebody waits who hasn't come through the gate
		l.letGo(c)
		return errOver
	}
	return l.inherits(c)
}

// leaveFor is the last step: W gives back what it has, and the lease hangs on S.
func (l *lock) leaveFor(ctx context.Context, own, c *conn) (driver.Instant, error) {
	r, err := l.step(ctx, own, fmt.Sprintf("SELECT pg_advisory_unlock_shared(%s), pg_advisory_unlock(%s)", l.key.lock(), l.key.gate()))
	if err == nil && (!r.bool(0, 0) || !r.bool(0, 1)) {
		own.end(errNotThere)
		err = own.err()
	}
	if err != nil {
		return 0, err
	}
	if err := l.hang(c); err != nil {
		err = lostWith(err)
		l.tellLost(err)
		return 0, err
	}
	l.giveOwn(own)
	return c.lastAnswered(), nil
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

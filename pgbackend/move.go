package pgbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker/driver"
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
// S was asked after W for the last time, so a base that was reported for W stays true. While a lock moves, the move is its renewal.

// move moves the lease of l, and returns its base. Where it can't be moved now it is renewed where it is.
func (l *lock) move(ctx context.Context) (driver.Instant, error) {
	l.settling.Lock()
	defer l.settling.Unlock()
	return l.moveSettling(ctx)
}

// moveSettling is move for whoever has l.settling.
func (l *lock) moveSettling(ctx context.Context) (driver.Instant, error) {
	l.mu.Lock()
	own, hangs, m, tried := l.own, l.hangs, l.mode, l.at != nil
	l.mu.Unlock()
	switch {
	case hangs == nil:
		return 0, errOver
	case hangs != own || m == unknown || tried:
		return hangs.stands(ctx)
	}
	s, err := l.d.session(l.ttl)
	if err != nil {
		return own.stands(ctx)
	}
	c, _ := s.get()
	if c == nil || c.place != own.place || c.claim(l) != nil { // it is being made, say: next time
		return own.stands(ctx)
	}
	if m == exclusive {
		if err := l.share(ctx, own); err != nil {
			c.unclaim(l)
			return 0, err
		}
	}
	base, err := l.takeOver(ctx, c)
	if err != nil {
		return own.stands(ctx)
	}
	if err := l.leaveOwn(ctx); err != nil {
		own.end(err) // what is left there goes with its session; Release makes sure
	}
	return base, nil
}

// share makes the exclusive lock on W a shared one.
func (l *lock) share(ctx context.Context, own *conn) error {
	l.setMode(unknown)
	r, err := own.execUrgent(ctx, fmt.Sprintf("SELECT CASE WHEN pg_advisory_lock_shared(%s) IS NOT NULL THEN pg_advisory_unlock(%[1]s) END", l.key.lock()))
	switch {
	case err != nil:
		return err
	case !r.bool(0, 0):
		own.end(errors.New("it doesn't have the lock any more"))
		return own.err()
	}
	l.setMode(sharing)
	return nil
}

func (l *lock) setMode(m mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = m
}

// takeOver takes the lock on S, and makes the lease hang on that. If nobody knows whether S has it, Release will give it back.
func (l *lock) takeOver(ctx context.Context, c *conn) (driver.Instant, error) {
	l.mu.Lock()
	l.at, l.shared = c, true
	l.mu.Unlock()
	r, err := c.execUrgent(ctx, fmt.Sprintf("SELECT pg_try_advisory_lock_shared(%s)", l.key.lock()))
	switch {
	case err != nil:
		return 0, err
	case !r.bool(0, 0): // somebody waits who hasn't come through the gate
		l.letGo(c)
		return 0, errOver
	}
	return r.sent, l.hang(c)
}

// moveOne moves the lease of some waiter's connection, which is free then. It is false when there is none.
func (s *session) moveOne(ctx context.Context) bool {
	ctx, cancel := callContext(ctx, maxCall)
	defer cancel()
	for _, l := range s.d.leasesOfWaiters(s) {
		if !l.settling.TryLock() { // it is being moved, or released
			continue
		}
		_, err := l.moveSettling(ctx)
		l.settling.Unlock()
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

//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// manyPack is many leases on few connections.
func (s *Service) manyPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I40", Name: "cancelled-acquisitions-cost-no-lease", Run: s.cancelledBeside,
			Why: "a cancelled query ends its connection, and with it all locks of that " +
				"connection; a caller that cancels must not end the leases of other callers"},
		{ID: "I41", Name: "blocked-token-costs-no-lease", Run: s.blockedToken,
			Why: "a statement that draws a token may be blocked while somebody alters the " +
				"sequence; the renewals of a thousand leases must not wait for it"},
		{ID: "I42", Name: "leases-share-connections", Run: s.shared,
			Why: "a server has about a hundred connections; a thousand leases are possible only " +
				"if a lease doesn't cost a connection, whether it was waited for or not"},
		{ID: "I43", Name: "lease-moves-off-its-waiters-connection-without-a-gap", Run: s.moves,
			Why: "while a lock is moved from one connection to another there must be no moment " +
				"in which it is free"},
		{ID: "I44", Name: "waiters-are-bounded-in-connections", Run: s.manyWaiters,
			Why: "a program that waits for many locks must get them without using up the " +
				"server's connections"},
		{ID: "I45", Name: "ended-session-loses-its-leases-at-once", Run: s.terminated,
			Why: "an operator that ends a session frees its locks at that moment; the holder " +
				"must notice at once, and the next acquisition must work"},
	}
}

// sessions counts the Lockers' sessions on the server.
func (s *Service) sessions(t conformance.T) int {
	t.Helper()
	return admin[int](t, s, "select count(*) from pg_stat_activity where usename = $1", pgUser)
}

// connections counts the Lockers' connections, by the locks that each has as long as it is open. A session
// is there for longer than its connection where PgBouncer keeps it for the next client.
func (s *Service) connections(t conformance.T) int {
	t.Helper()
	return admin[int](t, s, "select count(distinct pid) from "+pgPresent)
}

// held counts the locks that somebody holds, on the server.
func (s *Service) heldLocks(t conformance.T) int {
	t.Helper()
	return admin[int](t, s, "select count(distinct (classid, objid)) from "+pgHeld)
}

// holdMany acquires n locks at the same time.
func holdMany(t conformance.T, l locker.Locker, n int, opts ...locker.Option) []locker.Lease {
	t.Helper()
	base := step.LockName(t)
	leases, problems := make([]locker.Lease, n), make([]error, n)
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() { leases[i], problems[i] = l.Acquire(ctx, fmt.Sprint(base, "-", i), opts...) })
	}
	all.Wait()
	if err := errors.Join(problems...); err != nil {
		t.Fatalf("Acquire of %d locks = %v", n, err)
	}
	return leases
}

// allHeld fails unless all leases stand, in their own eyes and on the server.
func (s *Service) allHeld(t conformance.T, leases []locker.Lease) {
	t.Helper()
	for _, lease := range leases {
		if err := lease.Err(); err != nil {
			t.Fatalf("Err = %v, want nil: the lease is held", err)
		}
	}
	keys := make([]int64, len(leases))
	for i, lease := range leases {
		keys[i] = pgKey(lease.Name())
	}
	n := admin[int](t, s, "select count(distinct (classid, objid)) from "+pgHeld+ofKey+"any($1)", keys)
	if n != len(leases) {
		t.Fatalf("the server has %d of %d locks", n, len(leases))
	}
}

// shared waits for half of the leases.
func (s *Service) shared(t conformance.T, _ *conformance.Harness) {
	other := step.CloseAtEnd(t, s.open(t))
	const half = 20
	obstacles := holdMany(t, other, half, locker.WithTTL(itest.LongTTL))
	before := s.connections(t)
	l := step.CloseAtEnd(t, s.open(t))
	leases := holdMany(t, l, 1000, locker.WithTTL(4*itest.ShortTTL))
	var waiters []*step.Attempt
	for _, o := range obstacles {
		waiters = append(waiters, step.StartAcquire(t, l, o.Name(), locker.WithTTL(4*itest.ShortTTL)))
	}
	waiting := 0
	step.Eventually(t, itest.ShortWait, func() error {
		if waiting = admin[int](t, s, "select count(*) from "+pgAwaited); waiting < pgWaiters {
			return fmt.Errorf("%d wait on the server, want %d", waiting, pgWaiters)
		}
		return nil
	})
	for _, o := range obstacles {
		step.Release(t, o)
	}
	for _, w := range waiters {
		leases = append(leases, w.Granted(t, itest.ShortWait))
	}
	step.Eventually(t, 10*time.Second, func() error {
		if n := s.connections(t) - before; n > pgShared {
			return fmt.Errorf("%d leases use %d connections, want at most %d", len(leases), n, pgShared)
		}
		return nil
	})
	t.Logf("%d waited on the server; %d leases use %d connections", waiting, len(leases), s.connections(t)-before)
	step.Pass(t, 4*itest.ShortTTL)
	s.allHeld(t, leases)
}

// moves has a third Locker ask all the time, from before the grant until the lease is on a
// connection that it shares.
func (s *Service) moves(t conformance.T, _ *conformance.Harness) {
	l, other, third := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	step.FreeWithin(t, itest.ShortWait, l, step.LockName(t)) // so that there is a shared connection
	for range rounds(t, 5, 100) {
		name := step.LockName(t)
		lease := step.Acquire(t, other, name)
		waiter := step.StartAcquire(t, l, name, locker.WithTTL(4*itest.ShortTTL))
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
		blocked := admin[int](t, s, "select min(pid) from "+pgAwaited)
		asked, stop := make(chan error, 1), make(chan struct{})
		go func() { asked <- askUntil(t.Context(), third, name, stop) }()
		step.Release(t, lease)
		next := waiter.Granted(t, itest.ShortWait)
		step.Eventually(t, itest.ShortWait, func() error {
			holder := admin[int](t, s, "select coalesce(min(pid), 0) from "+pgHeld+ofKey+"$1", pgKey(name))
			if holder == blocked || holder == 0 {
				return errors.Join(fmt.Errorf("the lock is held by session %d, and %d was the waiter's", holder, blocked), next.Err())
			}
			return nil
		})
		close(stop)
		if err := <-asked; err != nil {
			t.Fatalf("%v", err)
		}
		step.WantLive(t, next, other)
		step.Release(t, next)
		step.FreeWithin(t, itest.ShortWait, third, name)
	}
}

// askUntil asks without waiting until stop is closed. Any answer but ErrHeld is an error.
func askUntil(ctx context.Context, l locker.Locker, name string, stop chan struct{}) error {
	for {
		lease, err := locker.TryAcquire(ctx, l, name)
		if err == nil {
			_ = lease.Release(ctx)
			return errors.New("TryAcquire got the lock, which somebody else held or waited for")
		}
		if !errors.Is(err, locker.ErrHeld) {
			return err
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

func (s *Service) manyWaiters(t conformance.T, _ *conformance.Harness) {
	other := step.CloseAtEnd(t, s.open(t))
	obstacles := holdMany(t, other, 100, locker.WithTTL(itest.LongTTL))
	before := s.connections(t)
	l := step.CloseAtEnd(t, s.open(t))
	var waiters []*step.Attempt
	for _, o := range obstacles {
		waiters = append(waiters, step.StartAcquire(t, l, o.Name(), locker.WithTTL(4*itest.ShortTTL)))
	}
	most := 0
	for end := time.Now().Add(2 * itest.ShortTTL); time.Now().Before(end); step.Pass(t, 20*time.Millisecond) {
		most = max(most, s.connections(t)-before)
	}
	t.Logf("%d waiters have used up to %d connections", len(waiters), most)
	if most > pgShared+pgWaiters {
		t.Errorf("%d waiters have used %d connections, want at most %d", len(waiters), most, pgShared+pgWaiters)
	}
	for _, w := range waiters {
		w.WantPending(t)
	}
	for _, o := range obstacles {
		step.Release(t, o)
	}
	var leases []locker.Lease
	for _, w := range waiters {
		leases = append(leases, w.Granted(t, 2*itest.ShortWait))
	}
	s.allHeld(t, leases)
}

// terminated ends the sessions of all Lockers, of those that hold nothing as well.
func (s *Service) terminated(t conformance.T, _ *conformance.Harness) {
	l, other := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	leases := holdMany(t, l, 10, locker.WithTTL(itest.LongTTL))
	step.FreeWithin(t, itest.ShortWait, other, step.LockName(t))
	admin[int](t, s, "select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = $1", pgUser)
	for _, lease := range leases {
		step.LostWithin(t, itest.ShortWait, lease)
	}
	for _, lease := range leases {
		step.FreeWithin(t, 0, other, lease.Name())
		step.FreeWithin(t, 0, l, lease.Name())
	}
}

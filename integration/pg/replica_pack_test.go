//go:build unix

package pg

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// replicaPack is a replica that takes over.
func (s *Service) replicaPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I20", Name: "tokens-rise-over-a-lagging-replica", Run: s.laggingReplica,
			Why: "a replica that has missed the latest tokens gives them again when it takes over, unless something else makes them rise"},
		{ID: "I21", Name: "tokens-rise-over-two-failovers-in-a-row", Run: s.missedEpoch,
			Why: "a replica may have missed the first failover's mark as well, and must not take the same one for the second"},
		{ID: "I22", Name: "former-primary-gives-smaller-tokens", Run: s.splitBrain,
			Why: "a primary that was replaced while it was cut off has holders still; the storage must refuse them once it has seen one of the new primary's"},
		{ID: "I23", Name: "failover-while-waiting", Run: s.failoverWhileWaiting,
			Why: "who waits when the primary dies must get the lock from the new one, or be told"},
		{ID: "I24", Name: "replica-is-refused-at-open", Run: s.replicaRefused,
			Why: "a replica has no locks of its own; to find that out with the first acquisition is too late"},
		{ID: "I25", Name: "primary-is-found-behind-a-replica", Run: s.primaryFound,
			Why: "who names both servers survives a failover; it must not be up to the order of their names, or to one more parameter"},
		{ID: "I26", Name: "tokens-rise-over-a-replica-that-knows-of-none", Run: s.unknownSequence,
			Why: "a replica may have missed all that there is of locks, and begins with the first token"},
		{ID: "I27", Name: "tokens-rise-over-an-old-dump", Run: s.oldDump,
			Why: "a dump of before a failover brings back what the tokens were then, and that there was no failover"},
	}
}

// spend draws tokens and returns the last.
func spend(t conformance.T, n int, lockers ...locker.Locker) (last locker.Token) {
	t.Helper()
	name := step.LockName(t)
	for i := range n {
		token := step.FreeWithin(t, itest.Soon, lockers[i%len(lockers)], name)
		later(t, last, token)
		last = token
	}
	return last
}

// withoutPrimary crashes the primary, and returns when the replica has taken over. The function that it returns, or the end of the case,
// makes a replica of the former one.
func (s *Service) withoutPrimary(t conformance.T) (rejoin func()) {
	t.Helper()
	var former *pgNode
	itest.Must(t, func(ctx context.Context) (err error) {
		former, err = s.crashPrimary(ctx)
		return err
	})
	rejoin = sync.OnceFunc(func() { itest.Must(t, func(ctx context.Context) error { return s.rejoin(ctx, former) }) })
	t.Cleanup(rejoin)
	return rejoin
}

// laggingReplica asks at once when the replica has taken over, by a Locker of before and by a new one.
func (s *Service) laggingReplica(t conformance.T, _ *conformance.Harness) {
	for _, old := range []bool{true, false} {
		l := step.CloseAtEnd(t, s.open(t))
		spend(t, 10, l)
		itest.Must(t, s.lag)
		last := spend(t, 200, l, step.CloseAtEnd(t, s.open(t)))
		rejoin := s.withoutPrimary(t)
		if !old {
			l = step.CloseAtEnd(t, s.open(t))
		}
		token := step.FreeWithin(t, itest.Soon, l, step.LockName(t))
		t.Logf("token %v on the new primary, and %v before", token, last)
		later(t, last, token)
		later(t, token, spend(t, 10, l, step.CloseAtEnd(t, s.open(t))))
		rejoin()
	}
}

func (s *Service) missedEpoch(t conformance.T, _ *conformance.Harness) {
	spend(t, 10, step.CloseAtEnd(t, s.open(t)))
	s.withoutPrimary(t)()
	itest.Must(t, s.lag) // it knows of the failover, and of nothing that came after it
	last := spend(t, 200, step.CloseAtEnd(t, s.open(t)))
	s.withoutPrimary(t)()
	later(t, last, step.FreeWithin(t, itest.Soon, step.CloseAtEnd(t, s.open(t)), step.LockName(t)))
}

// splitBrain leaves the former primary running, with a holder that believes in its lease.
func (s *Service) splitBrain(t conformance.T, _ *conformance.Harness) {
	var former, replica *pgNode
	itest.Must(t, func(ctx context.Context) (err error) {
		if former, err = s.leader(ctx); err == nil {
			replica, err = s.follower(ctx)
		}
		return err
	})
	name := step.LockName(t)
	l := step.CloseAtEnd(t, itest.OpenURL(t, pgURL(pgUser, pgPassword, pgDatabase, former.port)))
	stale := step.Acquire(t, l, name)
	itest.Must(t, func(ctx context.Context) error { return s.promote(ctx, replica) })
	t.Cleanup(func() {
		itest.Docker(t, []string{former.ID}, "kill")
		itest.Must(t, func(ctx context.Context) error { return s.rejoin(ctx, former) })
	})
	last := spend(t, 200, l)
	other := step.CloseAtEnd(t, itest.OpenURL(t, pgURL(pgUser, pgPassword, pgDatabase, replica.port)))
	lease := step.Acquire(t, other, name)
	t.Logf("tokens %v and %v on the former primary, %v on the new one", stale.Token(), last, lease.Token())
	later(t, max(stale.Token(), last), lease.Token())
	later(t, last, step.FreeWithin(t, itest.Soon, other, step.LockName(t)))
	pool, err := pgxpool.New(t.Context(), pgURL(pgUser, pgPassword, pgDatabase, former.port))
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(pool.Close)
	for _, lock := range []func(context.Context, pgx.Tx, string) (locker.Token, error){concrete(other).LockTx, concrete(other).TryLockTx} {
		token, err := lock(t.Context(), begin(t, pool), step.LockName(t))
		if err == nil || errors.Is(err, locker.ErrHeld) {
			t.Errorf("a transaction on the former primary, with a Locker on the new one, has locked: token %v, %v; want an error, as it keeps nobody out",
				token, err)
		}
	}
	if err := stale.Err(); err != nil {
		t.Errorf("the former holder's Err = %v: this case should have two holders", err)
	}
}

func (s *Service) failoverWhileWaiting(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.Far))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(itest.Far))
	step.Eventually(t, itest.Soon, func() error { return s.queued(t, name, 1) })
	rejoin := s.withoutPrimary(t)
	step.LostWithin(t, itest.Soon, lease)
	if !waiter.Returned(itest.Soon) {
		t.Fatalf("Acquire has not returned %v after the failover", itest.Soon)
	}
	if waiter.Err != nil { // its next request met no primary
		t.Logf("Acquire that waited over a failover = %v", waiter.Err)
	} else {
		later(t, lease.Token(), waiter.Lease.Token())
		step.Release(t, waiter.Lease)
	}
	later(t, lease.Token(), step.FreeWithin(t, itest.Soon, l, name))
	rejoin()
	step.FreeWithin(t, itest.Soon, other, name)
}

func (s *Service) replicaRefused(t conformance.T, _ *conformance.Harness) {
	itest.Must(t, func(ctx context.Context) error {
		replica, err := s.follower(ctx)
		if err == nil {
			itest.RefusedAtOpen(t, pgURL(pgUser, pgPassword, pgDatabase, replica.port), "standby")
		}
		return err
	})
}

func (s *Service) primaryFound(t conformance.T, _ *conformance.Harness) {
	itest.Must(t, func(ctx context.Context) error {
		leader, err := s.leader(ctx)
		if err != nil {
			return err
		}
		replica, err := s.follower(ctx)
		if err != nil {
			return err
		}
		l := step.CloseAtEnd(t, itest.OpenURL(t, pgURL(pgUser, pgPassword, pgDatabase, replica.port, leader.port)))
		step.FreeWithin(t, itest.Soon, l, step.LockName(t))
		if err := locker.ToleranceFailover.Check(l.Guarantees()); err != nil {
			t.Errorf("a Locker that knows both servers doesn't survive a failover: %v", err)
		}
		return nil
	})
}

func (s *Service) unknownSequence(t conformance.T, _ *conformance.Harness) {
	s.exec(t, "drop schema locker cascade")
	itest.Must(t, func(ctx context.Context) error { return itest.Until(ctx, s.ready) })
	itest.Must(t, s.lag)
	last := spend(t, 200, step.CloseAtEnd(t, s.open(t)))
	s.withoutPrimary(t)()
	later(t, last, step.FreeWithin(t, itest.Soon, step.CloseAtEnd(t, s.open(t)), step.LockName(t)))
}

func (s *Service) oldDump(t conformance.T, _ *conformance.Harness) {
	l := step.CloseAtEnd(t, s.open(t))
	spend(t, 10, l)
	var replica *pgNode
	itest.Must(t, func(ctx context.Context) error {
		if err := itest.Until(ctx, s.ready); err != nil { // it has all
			return err
		}
		var err error
		replica, err = s.follower(ctx)
		return err
	})
	replica.shell(t, pgDumped)
	s.withoutPrimary(t)()
	last := spend(t, 200, l, step.CloseAtEnd(t, s.open(t)))
	replica.shell(t, pgCleaned)
	token := step.FreeWithin(t, itest.Soon, step.CloseAtEnd(t, s.open(t)), step.LockName(t))
	t.Logf("token %v when the dump was restored, and %v before", token, last)
	later(t, last, token)
	later(t, token, step.FreeWithin(t, itest.Soon, l, step.LockName(t)))
}

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

// replicaPack tests a replica that takes over.
func (s *Service) replicaPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I20", Name: "tokens-rise-over-a-lagging-replica", Run: s.laggingReplica,
			Why: "a replica that has missed the latest tokens gives them out again when it " +
				"takes over, unless something else makes tokens rise"},
		{ID: "I21", Name: "tokens-rise-over-two-failovers-in-a-row", Run: s.missedEpoch,
			Why: "a replica may have missed the mark of the first failover as well, and must " +
				"not use the same mark for the second failover"},
		{ID: "I22", Name: "former-primary-gives-smaller-tokens", Run: s.splitBrain,
			Why: "a primary that was replaced while it was cut off still has holders; the " +
				"storage must refuse them as soon as it has seen a token of the new primary"},
		{ID: "I23", Name: "failover-while-waiting", Run: s.failoverWhileWaiting,
			Why: "a caller that waits when the primary dies must get the lock from the new " +
				"primary, or an error"},
		{ID: "I24", Name: "replica-is-refused-at-open", Run: s.replicaRefused,
			Why: "a replica can't grant locks; an error at the first acquisition comes too late"},
		{ID: "I25", Name: "primary-is-found-behind-a-replica", Run: s.primaryFound,
			Why: "a Locker whose URL names both servers must survive a failover, whatever the " +
				"order of the servers, and without another parameter"},
		{ID: "I26", Name: "tokens-rise-over-a-replica-that-knows-of-none", Run: s.unknownSequence,
			Why: "a replica may have missed everything that is stored about locks, and then " +
				"begins with the first token"},
		{ID: "I27", Name: "tokens-rise-over-an-old-dump", Run: s.oldDump,
			Why: "a dump that was made before a failover restores the tokens of that time, and " +
				"the state in which there was no failover"},
		{ID: "I28", Name: "waiter-leaves-a-former-primary", Run: s.leavesFormerPrimary,
			Why: "a primary that was replaced may go on, and a caller that waits there would wait for a lock " +
				"that excludes nobody any more"},
	}
}

// spend draws tokens and returns the last.
func spend(t conformance.T, n int, lockers ...locker.Locker) (last locker.Token) {
	t.Helper()
	name := step.LockName(t)
	for i := range n {
		token := step.FreeWithin(t, itest.ShortWait, lockers[i%len(lockers)], name)
		later(t, last, token)
		last = token
	}
	return last
}

// withoutPrimary crashes the primary, and returns when the replica has taken over. The function
// that it returns, or the end of the case, makes a replica of the former one.
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

// laggingReplica asks for the lock as soon as the replica has taken over, with a Locker that was
// open before and with a new one.
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
		token := step.FreeWithin(t, itest.ShortWait, l, step.LockName(t))
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
	later(t, last, step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t)))
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
	later(t, last, step.FreeWithin(t, itest.ShortWait, other, step.LockName(t)))
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
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL))
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
	rejoin := s.withoutPrimary(t)
	step.LostWithin(t, itest.ShortWait, lease)
	if !waiter.Returned(itest.ShortWait) {
		t.Fatalf("Acquire has not returned %v after the failover", itest.ShortWait)
	}
	if waiter.Err != nil { // its next request met no primary
		t.Logf("Acquire that waited over a failover = %v", waiter.Err)
	} else {
		later(t, lease.Token(), waiter.Lease.Token())
		step.Release(t, waiter.Lease)
	}
	later(t, lease.Token(), step.FreeWithin(t, itest.ShortWait, l, name))
	rejoin()
	step.FreeWithin(t, itest.ShortWait, other, name)
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
		step.FreeWithin(t, itest.ShortWait, l, step.LockName(t))
		if err := locker.ToleranceFailover.Check(l.Guarantees()); err != nil {
			t.Errorf("a Locker that knows both servers doesn't survive a failover: %v", err)
		}
		return nil
	})
}

func (s *Service) unknownSequence(t conformance.T, _ *conformance.Harness) {
	s.exec(t, "drop schema if exists locker cascade")
	itest.Must(t, func(ctx context.Context) error { return itest.Until(ctx, s.ready) })
	itest.Must(t, s.lag)
	last := spend(t, 200, step.CloseAtEnd(t, s.open(t)))
	s.withoutPrimary(t)()
	later(t, last, step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t)))
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
	token := step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t))
	t.Logf("token %v when the dump was restored, and %v before", token, last)
	later(t, last, token)
	later(t, token, step.FreeWithin(t, itest.ShortWait, l, step.LockName(t)))
}

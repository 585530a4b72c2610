//go:build unix

package redlock

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/redlockbackend"
)

// waitPack tests contenders that get in one another's way.
func (s *Service) waitPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I4", Name: "split-votes-end", Run: s.splitVotes,
			Why: "callers that ask at the same time may win some servers each; one of them must " +
				"win a majority, each time"},
		{ID: "I16", Name: "end-of-a-shorter-lease-is-known", Run: s.shorterLease,
			Why: "a waiter knows how long the lease lasts that it saw last; if the next one is " +
				"shorter, and its holder dies, the lock must be free when that one is over"},
		{ID: "I14", Name: "release-leaves-the-next-its-place", Run: s.nextOfTheSameLocker,
			Why: "a Locker has one place in a lock's queue; a holder that releases the lock " +
				"must not remove the place of the next caller in its own process"},
	}
}

func (s *Service) splitVotes(t conformance.T, _ *conformance.Harness) {
	for _, contenders := range []int{2, 5} {
		name := step.LockName(t)
		var all []locker.Locker
		for range contenders {
			all = append(all, step.CloseAtEnd(t, s.Open(t)))
		}
		back := s.without(t, "hanging", s.Nodes[:1]) // four can be halved
		began := time.Now()
		const rounds = 30
		var last locker.Token
		for range rounds {
			var waiters []*step.Attempt
			for _, l := range all {
				waiters = append(waiters, step.StartAcquire(t, l, name))
			}
			for len(waiters) > 0 {
				i := step.FirstGranted(t, step.Limit, waiters)
				lease := waiters[i].Granted(t, 0)
				waiters = slices.Delete(waiters, i, i+1)
				if lease.Token() <= last {
					t.Errorf("token %d after %d", lease.Token(), last)
				}
				last = lease.Token()
				step.Release(t, lease)
			}
		}
		back()
		took := time.Since(began)
		t.Logf("%d rounds of %d contenders took %v", rounds, contenders, took)
		if took > 2*step.Limit {
			t.Errorf("%d rounds of %d contenders took %v", rounds, contenders, took)
		}
	}
}

// queued returns when so many wait.
func (s *Service) queued(t conformance.T, name string, want int) {
	t.Helper()
	step.Eventually(t, itest.ShortWait, func() error {
		if n := s.Waiters(t, name); n != want {
			return fmt.Errorf("%d wait, want %d", n, want)
		}
		return nil
	})
}

// nextOfTheSameLocker has the same Locker hold a lock and wait for it, and another that came later.
func (s *Service) nextOfTheSameLocker(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name)
	for range 5 {
		next := step.StartAcquire(t, l, name)
		s.queued(t, name, 1)
		later := step.StartAcquire(t, other, name)
		s.queued(t, name, 2)
		step.Release(t, lease)
		lease = next.Granted(t, itest.ShortWait)
		later.WantPending(t)
		later.Cancel(nil)
		later.Returned(itest.ShortWait)
		s.queued(t, name, 0)
	}
	step.Release(t, lease)
}

// shorterLease has a lease pass to a holder with a shorter TTL, which is cut off at once. A busy machine may be
// late, but not each time.
func (s *Service) shorterLease(t conformance.T, _ *conformance.Harness) {
	const (
		short = 400 * time.Millisecond
		busy  = 400 * time.Millisecond // with this, less than a waiter waits that has asked as the second
	)
	limit := short + redlockbackend.Guarantees().Expiry.Slack + busy
	var took time.Duration
	for range 3 {
		if took = s.afterShorterLease(t, short); took <= limit {
			return
		}
	}
	t.Errorf("the next one had the lock %v after the holder with a TTL of %v was cut off, want %v at most", took, short, limit)
}

// afterShorterLease returns how long the next one had to wait.
func (s *Service) afterShorterLease(t conformance.T, short time.Duration) time.Duration {
	t.Helper()
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	dying, link := s.linked(t)
	dying = step.CloseAtEnd(t, dying)
	lease := step.Acquire(t, l, name)
	first := step.StartAcquire(t, dying, name, locker.WithTTL(short))
	s.queued(t, name, 1)
	next := step.StartAcquire(t, step.CloseAtEnd(t, s.Open(t)), name)
	s.queued(t, name, 2)
	step.Release(t, lease)
	_ = first.Granted(t, itest.ShortWait)
	link.Cut()
	began := time.Now()
	granted := next.Granted(t, itest.ShortWait)
	took := time.Since(began)
	link.Heal()
	step.Release(t, granted)
	return took
}

//go:build unix

package zk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// costs counts the requests of what docs/zookeeper.md has in its table.
func (s *Service) costs(t conformance.T, _ *conformance.Harness) {
	opening := s.counter.n.Load()
	l, other := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t))
	const each = 4 + 2*(zkServers-1) // its own session's, and the ones to compare the other addresses
	if n := s.counter.n.Load() - opening; n > 2*each {
		t.Errorf("two Lockers were opened with %d requests about nodes, want %d each at most", n, each)
	}
	name := step.LockName(t)
	step.FreeWithin(t, itest.ShortWait, l, name)
	try := func() error {
		lease, err := locker.TryAcquire(t.Context(), l, name)
		if err == nil {
			err = lease.Release(t.Context())
		}
		return err
	}
	nothing := func(context.Context, locker.Lease) error { return nil }
	s.cost(t, "acquiring and releasing a free lock", 2, func() error { return locker.Do(t.Context(), l, name, nothing) })
	s.cost(t, "the same without waiting", 2, try)

	lease := step.Acquire(t, other, name)
	s.cost(t, "finding a lock held", 3, func() error {
		if err := try(); !errors.Is(err, locker.ErrHeld) {
			return fmt.Errorf("TryAcquire = %w, want ErrHeld", err)
		}
		return nil
	})
	s.cost(t, "waiting for the holder to release", 4, func() error {
		w := step.StartAcquire(t, l, name)
		step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, name, 1) })
		if err := lease.Release(t.Context()); err != nil {
			return err
		}
		lease = w.Granted(t, itest.ShortWait)
		l, other = other, l
		return nil
	})
	step.Release(t, lease)
	s.crowd(t, name)
	s.permits(t, step.LockName(t))
}

// cost counts what one of many rounds of f costs. In the background there are watches of the own
// nodes of leases, but of those alone that last for a while. A few rounds may cost a request less:
// a waiter that looks for its place only after the release has nothing to watch.
func (s *Service) cost(t conformance.T, what string, want float64, f func() error) {
	t.Helper()
	const rounds = 100
	before := s.counter.n.Load()
	for range rounds {
		if err := f(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	got := float64(s.counter.n.Load()-before) / rounds
	t.Logf("%s: %.2f requests", what, got)
	if got < want-0.5 || got > want+1 {
		t.Errorf("%s: %.2f requests, want about %v", what, got, want)
	}
}

// crowd has many take a lock at the same time.
func (s *Service) crowd(t conformance.T, name string) {
	t.Helper()
	const contenders, rounds = 8, 25
	var lockers []locker.Locker
	for range contenders {
		lockers = append(lockers, step.CloseAtEnd(t, s.Open(t)))
	}
	before := s.counter.n.Load()
	var all sync.WaitGroup
	for _, l := range lockers {
		all.Go(func() {
			for range rounds {
				if err := locker.Do(t.Context(), l, name, func(context.Context, locker.Lease) error { return nil }); err != nil {
					t.Errorf("Do = %v", err)
				}
			}
		})
	}
	all.Wait()
	got := float64(s.counter.n.Load()-before) / (contenders * rounds)
	t.Logf("%d contenders: %.2f requests for each lease", contenders, got)
	if got < 4 || got > 6 {
		t.Errorf("%d contenders: %.2f requests for each lease, want 5", contenders, got)
	}
}

// permits has many take one of a few permits. None is held for a while.
func (s *Service) permits(t conformance.T, name string) {
	t.Helper()
	const contenders, n, rounds = 16, 3, 40
	var lockers []locker.Locker
	for range 4 {
		lockers = append(lockers, step.CloseAtEnd(t, s.Open(t)))
	}
	s.counter.taken()
	before := s.counter.n.Load()
	var all sync.WaitGroup
	for i := range contenders {
		all.Go(func() {
			for range rounds {
				if err := locker.DoPermit(t.Context(), lockers[i%4], name, n, func(context.Context, locker.Lease) error { return nil }); err != nil {
					t.Errorf("DoPermit = %v", err)
				}
			}
		})
	}
	all.Wait()
	got := float64(s.counter.n.Load()-before) / (contenders * rounds)
	t.Logf("%d contenders, %d permits: %.2f requests for each permit: %s", contenders, n, got, table(s.counter.taken(), contenders*rounds))
}

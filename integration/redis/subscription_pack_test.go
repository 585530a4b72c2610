//go:build unix

package redis

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// subscriptionKilled releases the lock when all listen again, and before: then the first that is
// back gets it, because the server doesn't know which of them lives.
func (s *Service) subscriptionKilled(t conformance.T, _ *conformance.Harness) {
	for _, back := range []bool{true, false} {
		holder, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		lease := step.Acquire(t, holder, name, locker.WithTTL(itest.LongTTL))
		var all []*step.Attempt
		for i := range 3 {
			all = append(all, step.StartAcquire(t, step.CloseAtEnd(t, s.Open(t)), name, locker.WithTTL(itest.LongTTL)))
			step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, i+1) })
		}
		s.all(t, "client", "kill", "type", "pubsub")
		if back {
			step.Eventually(t, itest.ShortWait, func() error {
				if n := s.listening(t, name); n != len(all) {
					return fmt.Errorf("the server sees %d waiters listening, want all %d again", n, len(all))
				}
				return nil
			})
		}
		step.Release(t, lease)
		for range all {
			i := step.FirstGranted(t, itest.ShortWait, all)
			if i > 0 && back {
				t.Errorf("the waiter at place %d of the queue has got the lock", i)
			}
			step.Release(t, all[i].Granted(t, 0))
			all = slices.Delete(all, i, i+1)
		}
	}
}

// subscriptionCut cuts for longer than a place lives, and for shorter. Where the place has died a
// waiter takes another, and if just that request is lost, it may fail.
func (s *Service) subscriptionCut(t conformance.T, _ *conformance.Harness) {
	for _, ttl := range []time.Duration{itest.ShortTTL, 8 * itest.ShortTTL} {
		holder, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		waiter, link := s.linked(t)
		step.CloseAtEnd(t, waiter)
		t.Cleanup(link.Heal)
		lease := step.Acquire(t, holder, name, locker.WithTTL(itest.LongTTL))
		var all []*step.Attempt
		for i := range 3 { // one of them at a time is in the server's queue
			all = append(all, step.StartAcquire(t, waiter, name, locker.WithTTL(ttl)))
			if i == 0 {
				step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
				step.Eventually(t, itest.ShortWait, func() error { return s.answered(t, waiter, name) })
			}
		}
		for range 2 {
			link.Cut()
			step.Pass(t, 2*itest.ShortTTL)
			link.Heal()
			step.Pass(t, itest.ShortTTL)
		}
		link.Sever()
		step.Release(t, lease)
		for range all {
			i := step.FirstReturned(t, itest.ShortWait, all)
			if err := all[i].Err; err != nil && ttl == itest.ShortTTL && !errors.Is(err, locker.ErrHeld) {
				t.Logf("Acquire = %v", err)
			} else {
				step.Release(t, all[i].Granted(t, 0))
			}
			all = slices.Delete(all, i, i+1)
		}
		step.FreeWithin(t, itest.ShortWait, holder, name)
	}
}

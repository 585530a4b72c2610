//go:build unix

package redis

import (
	"context"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// memoryPack tests which data Redis has after a restart. The suite's restart is a crash, after
// which the leases are gone.
func (s *Service) memoryPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I30", Name: "leases-outlive-a-restart-that-saved", Run: s.savedRestart,
			Why: "a server that is stopped in good order writes a snapshot; a lease that was " +
				"held at that moment must still be held after the start"},
		{ID: "I31", Name: "tokens-rise-over-an-old-snapshot", Run: s.oldSnapshot,
			Why: "after a crash the counter of tokens may have an old value; tokens that were " +
				"given out after that value must not be given out again"},
	}
}

func (s *Service) savedRestart(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL))
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
	s.down(t)
	s.up(t)
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew after the restart = %v, want nil", err)
	}
	step.WantLive(t, lease, step.CloseAtEnd(t, s.Open(t)))
	waiter.WantPending(t)
	step.Release(t, lease)
	next := waiter.Granted(t, itest.ShortWait)
	if next.Token() <= lease.Token() {
		t.Errorf("token %v after %v", next.Token(), lease.Token())
	}
	step.Release(t, next)
}

func (s *Service) oldSnapshot(t conformance.T, _ *conformance.Harness) {
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	step.FreeWithin(t, 0, l, name)
	itest.Must(t, func(ctx context.Context) error { return s.Nodes[0].Admin.Save(ctx).Err() })
	var last locker.Token
	for range 100 {
		last = step.FreeWithin(t, 0, l, name)
	}
	s.restart(t)
	if token := step.FreeWithin(t, itest.ShortWait, l, name); token <= last {
		t.Errorf("token %v after %v", token, last)
	}
	s.flush(t) // or the snapshot would come back after the next crash
}

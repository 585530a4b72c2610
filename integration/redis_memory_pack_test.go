//go:build unix

package integration

import (
	"context"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// memoryPack is what of its memory Redis has after it was started anew. The suite's restart is a crash, after which the leases are
// gone.
func (s *redisService) memoryPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I30", Name: "leases-outlive-a-restart-that-saved", Run: s.savedRestart,
			Why: "a server that is stopped in good order writes a snapshot; who holds a lease then goes on holding it"},
		{ID: "I31", Name: "tokens-rise-over-an-old-snapshot", Run: s.oldSnapshot,
			Why: "after a crash the counter of tokens may be an old one; what it has given since must not be given again"},
	}
}

func (s *redisService) savedRestart(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(far))
	waiter := wait(t, other, name, locker.WithTTL(far))
	eventually(t, soon, func() error { return s.queued(t, name, 1) })
	s.down(t)
	s.up(t)
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew after the restart = %v, want nil", err)
	}
	held(t, lease, keep(t, s.open(t)))
	waiter.pending(t)
	release(t, lease)
	next := waiter.granted(t, soon)
	if next.Token() <= lease.Token() {
		t.Errorf("token %v after %v", next.Token(), lease.Token())
	}
	release(t, next)
}

func (s *redisService) oldSnapshot(t conformance.T, _ *conformance.Harness) {
	l, name := keep(t, s.open(t)), lockName(t)
	free(t, 0, l, name)
	must(t, func(ctx context.Context) error { return s.nodes[0].admin.Save(ctx).Err() })
	var last locker.Token
	for range 100 {
		last = free(t, 0, l, name)
	}
	s.restart(t)
	if token := free(t, soon, l, name); token <= last {
		t.Errorf("token %v after %v", token, last)
	}
	s.flush(t) // or the snapshot would come back after the next crash
}

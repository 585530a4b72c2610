//go:build unix

package redis

import (
	"context"
	"errors"
	"slices"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
)

func (s *Service) clusterPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I50", Name: "locks-are-spread-over-slots", Run: s.spread,
			Why: "one Locker holds locks on all servers of a Cluster; one that hangs must not delay the locks of the others"},
		{ID: "I51", Name: "moving-slot-costs-no-lease", Run: s.slotMoves,
			Why: "slots are moved while locks in them are held and waited for; that must be no more than a delay"},
		{ID: "I52", Name: "failover-while-polling", Run: s.failoverWhilePolling,
			Why: "when replicas take over from all masters, holder and waiters must come out of it without anybody's help"},
		{ID: "I53", Name: "slot-that-moves-slowly-costs-no-lease", Run: s.slotMovesSlowly,
			Why: "a slot with many keys is on the move for longer than a TTL; holders must be able to renew and release their leases meanwhile"},
	}
}

// names are lock names of which each node has one.
func (s *Service) names(t conformance.T) map[*Node]string {
	t.Helper()
	names := make(map[*Node]string)
	for len(names) < clusterMasters {
		name := step.LockName(t)
		names[s.nodeOf(t, name)] = name
	}
	return names
}

func (s *Service) nodeOf(t conformance.T, name string) (node *Node) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		return s.where(ctx, func(ctx context.Context, n *Node) error {
			err := n.Admin.Exists(ctx, key(name)).Err()
			if err == nil {
				node = n
			}
			return err
		})
	})
	return node
}

// spread has one node hang for as long as the locks on the others must be renewed.
func (s *Service) spread(t conformance.T, _ *conformance.Harness) {
	l, other := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t))
	names, beside := s.names(t), s.names(t)
	leases := make(map[*Node]locker.Lease)
	for n, name := range names {
		leases[n] = step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	}
	var hung *Node
	for hung = range names {
		break // any of them
	}
	pause := func(verb string) {
		itest.Must(t, func(ctx context.Context) error {
			_, err := images.Docker(ctx, verb, hung.ID)
			return err
		})
	}
	pause("pause")
	t.Cleanup(func() { _, _ = images.Docker(context.Background(), "unpause", hung.ID) }) // if the case fails
	step.LostWithin(t, itest.ShortTTL+itest.Soon, leases[hung])
	for n, lease := range leases {
		if n == hung {
			continue
		}
		step.WantLive(t, lease, other)
		step.FreeWithin(t, itest.Soon, other, beside[n])
		step.Release(t, lease)
	}
	pause("unpause")
	step.FreeWithin(t, itest.Soon, other, names[hung])
	step.FreeWithin(t, itest.Soon, other, beside[hung])
}

// failoverWhilePolling lets waiters fail that ask while nobody is there: they have no place to lose, and a caller may ask again.
func (s *Service) failoverWhilePolling(t conformance.T, _ *conformance.Harness) {
	holder, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, holder, name, locker.WithTTL(itest.Far))
	var all []*step.Attempt
	for range 3 {
		all = append(all, step.StartAcquire(t, step.CloseAtEnd(t, s.Open(t)), name, locker.WithTTL(itest.Far)))
	}
	itest.Must(t, s.failover)
	if err := lease.Renew(t.Context()); err != nil {
		t.Logf("Renew after the failover = %v", err)
	}
	if err := lease.Release(t.Context()); err != nil && !errors.Is(err, locker.ErrLost) {
		t.Errorf("Release = %v, want nil or ErrLost", err)
	}
	last := lease.Token()
	for range all {
		i := step.FirstReturned(t, itest.Soon, all)
		if err := all[i].Err; err == nil {
			if token := all[i].Lease.Token(); token <= last {
				t.Errorf("token %v after %v", token, last)
			}
			last = all[i].Lease.Token()
			step.Release(t, all[i].Lease)
		} else if t.Logf("Acquire = %v", err); errors.Is(err, locker.ErrHeld) {
			t.Errorf("Acquire = %v, want a lease, or an error that is not ErrHeld: the service failed", err)
		}
		all = slices.Delete(all, i, i+1)
	}
	if token := step.FreeWithin(t, itest.Soon, other, name); token <= last {
		t.Errorf("token %v after %v", token, last)
	}
}

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
			Why: "one Locker holds locks on all servers of a Cluster; a server that doesn't " +
				"answer must not delay the locks on the other servers"},
		{ID: "I51", Name: "moving-slot-costs-no-lease", Run: s.slotMoves,
			Why: "slots are moved while locks in them are held and waited for; the move may " +
				"delay requests, and must do nothing else"},
		{ID: "I52", Name: "failover-while-polling", Run: s.failoverWhilePolling,
			Why: "when replicas take over from all masters, the holder and the waiters must " +
				"recover without anybody's help"},
		{ID: "I53", Name: "slot-that-moves-slowly-costs-no-lease", Run: s.slotMovesSlowly,
			Why: "the move of a slot with many keys takes longer than a TTL; holders must be " +
				"able to renew and release their leases during the move"},
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

// spread stops one node, and meanwhile the locks on the other nodes must be renewed.
func (s *Service) spread(t conformance.T, _ *conformance.Harness) {
	l, other := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t))
	names, others := s.names(t), s.names(t)
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
	step.LostWithin(t, itest.ShortTTL+itest.ShortWait, leases[hung])
	for n, lease := range leases {
		if n == hung {
			continue
		}
		step.WantLive(t, lease, other)
		step.FreeWithin(t, itest.ShortWait, other, others[n])
		step.Release(t, lease)
	}
	pause("unpause")
	step.FreeWithin(t, itest.ShortWait, other, names[hung])
	step.FreeWithin(t, itest.ShortWait, other, others[hung])
}

// failoverWhilePolling allows waiters to fail if they ask while no master exists: they have no
// place to lose, and a caller may ask again.
func (s *Service) failoverWhilePolling(t conformance.T, _ *conformance.Harness) {
	holder, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, holder, name, locker.WithTTL(itest.LongTTL))
	var all []*step.Attempt
	for range 3 {
		all = append(all, step.StartAcquire(t, step.CloseAtEnd(t, s.Open(t)), name, locker.WithTTL(itest.LongTTL)))
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
		i := step.FirstReturned(t, itest.ShortWait, all)
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
	if token := step.FreeWithin(t, itest.ShortWait, other, name); token <= last {
		t.Errorf("token %v after %v", token, last)
	}
}

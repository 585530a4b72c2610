//go:build unix

package integration

import (
	"context"
	"errors"
	"slices"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/images"
)

func (s *redisService) clusterPack() []conformance.Case {
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
func (s *redisService) names(t conformance.T) map[*redisNode]string {
	t.Helper()
	names := make(map[*redisNode]string)
	for len(names) < clusterMasters {
		name := lockName(t)
		names[s.nodeOf(t, name)] = name
	}
	return names
}

func (s *redisService) nodeOf(t conformance.T, name string) (node *redisNode) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		return s.where(ctx, func(ctx context.Context, n *redisNode) error {
			err := n.admin.Exists(ctx, key(name)).Err()
			if err == nil {
				node = n
			}
			return err
		})
	})
	return node
}

// spread has one node hang for as long as the locks on the others must be renewed.
func (s *redisService) spread(t conformance.T, _ *conformance.Harness) {
	l, other := keep(t, s.open(t)), keep(t, s.open(t))
	names, beside := s.names(t), s.names(t)
	leases := make(map[*redisNode]locker.Lease)
	for n, name := range names {
		leases[n] = acquire(t, l, name, locker.WithTTL(shortTTL))
	}
	var hung *redisNode
	for hung = range names {
		break // any of them
	}
	pause := func(verb string) {
		must(t, func(ctx context.Context) error {
			_, err := images.Docker(ctx, verb, hung.id)
			return err
		})
	}
	pause("pause")
	t.Cleanup(func() { _, _ = images.Docker(context.Background(), "unpause", hung.id) }) // if the case fails
	lost(t, shortTTL+soon, leases[hung])
	for n, lease := range leases {
		if n == hung {
			continue
		}
		held(t, lease, other)
		free(t, soon, other, beside[n])
		release(t, lease)
	}
	pause("unpause")
	free(t, soon, other, names[hung])
	free(t, soon, other, beside[hung])
}

// failoverWhilePolling lets waiters fail that ask while nobody is there: they have no place to lose, and a caller may ask again.
func (s *redisService) failoverWhilePolling(t conformance.T, _ *conformance.Harness) {
	holder, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, holder, name, locker.WithTTL(far))
	var all []*waiting
	for range 3 {
		all = append(all, wait(t, keep(t, s.open(t)), name, locker.WithTTL(far)))
	}
	must(t, s.failover)
	if err := lease.Renew(t.Context()); err != nil {
		t.Logf("Renew after the failover = %v", err)
	}
	if err := lease.Release(t.Context()); err != nil && !errors.Is(err, locker.ErrLost) {
		t.Errorf("Release = %v, want nil or ErrLost", err)
	}
	last := lease.Token()
	for range all {
		i := first(t, all, soon)
		if err := all[i].err; err == nil {
			if token := all[i].lease.Token(); token <= last {
				t.Errorf("token %v after %v", token, last)
			}
			last = all[i].lease.Token()
			release(t, all[i].lease)
		} else if t.Logf("Acquire = %v", err); errors.Is(err, locker.ErrHeld) {
			t.Errorf("Acquire = %v, want a lease, or an error that is not ErrHeld: the service failed", err)
		}
		all = slices.Delete(all, i, i+1)
	}
	if token := free(t, soon, other, name); token <= last {
		t.Errorf("token %v after %v", token, last)
	}
}

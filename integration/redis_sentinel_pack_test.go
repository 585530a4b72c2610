//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

func (s *redisService) sentinelPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I40", Name: "failover-while-waiting", Run: s.failoverWhileWaiting,
			Why: "holder and waiters must come out of a failover without anybody's help: with a lease that stands or a loss that is known, and with a turn"},
		{ID: "I41", Name: "tokens-rise-over-a-stale-replica", Run: s.staleReplica,
			Why: "the replica that takes over may have missed all that happened lately, the counter of tokens with it"},
		{ID: "I42", Name: "planned-failover-costs-no-lease", Run: s.plannedFailover,
			Why: "an operator who moves the master has a replica that knows all; holders must go on holding"},
	}
}

// masterNode is the node that the sentinels call the master, and the others.
func (s *redisService) masterNode(t conformance.T) (master *redisNode, replicas []*redisNode) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		addr, err := s.sentinels[0].master(ctx)
		for _, n := range s.nodes {
			if n.addr == addr {
				master = n
			} else {
				replicas = append(replicas, n)
			}
		}
		return err
	})
	return master, replicas
}

func (s *redisService) failoverWhileWaiting(t conformance.T, _ *conformance.Harness) {
	holder, name := keep(t, s.open(t)), lockName(t)
	lease := acquire(t, holder, name, locker.WithTTL(far))
	var all []*waiting
	for i := range 3 {
		all = append(all, wait(t, keep(t, s.open(t)), name, locker.WithTTL(far)))
		eventually(t, soon, func() error { return s.queued(t, name, i+1) })
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
		next := all[i].granted(t, 0)
		if next.Token() <= last {
			t.Errorf("token %v after %v", next.Token(), last)
		}
		last = next.Token()
		release(t, next)
		all = slices.Delete(all, i, i+1)
	}
}

// staleReplica keeps the replicas from following by a password that is wrong, and has the master crash.
func (s *redisService) staleReplica(t conformance.T, _ *conformance.Harness) {
	l, name := keep(t, s.open(t)), lockName(t)
	last := free(t, 0, l, name)
	master, replicas := s.masterNode(t)
	setPassword := func(password string) {
		must(t, func(ctx context.Context) error {
			for _, n := range replicas {
				if err := n.admin.ConfigSet(ctx, "masterauth", password).Err(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	t.Cleanup(func() {
		setPassword(redisPassword)
		must(t, s.wait) // the next case needs replicas that follow, also when this one has failed
	})
	must(t, func(ctx context.Context) error { // they have an older token when they are cut off, and not none
		return until(ctx, func(ctx context.Context) error {
			for _, n := range replicas {
				if known, err := n.admin.Get(ctx, key(name)+":token").Result(); err != nil || known != fmt.Sprint(last) {
					return errors.Join(err, fmt.Errorf("replica %s knows the token %s, not %d yet", n.addr, known, last))
				}
			}
			return nil
		})
	})
	setPassword("wrong")
	must(t, func(ctx context.Context) error {
		return master.admin.Do(ctx, "client", "kill", "type", "replica").Err()
	})
	for range 100 {
		last = free(t, 0, l, name)
	}
	must(t, func(ctx context.Context) error {
		for _, n := range replicas {
			known, err := n.admin.Get(ctx, key(name)+":token").Result()
			if err != nil || known == fmt.Sprint(last) {
				return errors.Join(err, fmt.Errorf("replica %s knows the last token, so this case would prove nothing", n.addr))
			}
		}
		return nil
	})
	must(t, func(ctx context.Context) error {
		former, err := s.crashMaster(ctx)
		if err != nil {
			return err
		}
		setPassword(redisPassword)
		return s.rejoin(ctx, former)
	})
	if token := free(t, soon, l, name); token <= last {
		t.Errorf("token %v after %v", token, last)
	}
}

// plannedFailover leaves the former master alive until it is made a replica, with all its connections.
func (s *redisService) plannedFailover(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(4*shortTTL))
	former, _ := s.masterNode(t)
	must(t, func(ctx context.Context) error {
		return until(ctx, func(ctx context.Context) error {
			addr, err := s.sentinels[0].master(ctx)
			if err != nil || addr != former.addr {
				return errors.Join(err, s.follow(ctx, former))
			}
			// A sentinel that doesn't see the promotion within failover-timeout gives it up, and has to be asked again.
			return errors.Join(fmt.Errorf("the master is still %s", former.addr), s.sentinels[0].admin.Do(ctx, "sentinel", "failover", group).Err())
		})
	})
	pass(t, 8*shortTTL) // it has to be renewed on the new master
	held(t, lease, other)
	release(t, lease)
	free(t, soon, other, name)
	must(t, s.wait)
}

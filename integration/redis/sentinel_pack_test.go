//go:build unix

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

func (s *Service) sentinelPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I40", Name: "failover-while-waiting", Run: s.failoverWhileWaiting,
			Why: "the holder and the waiters must recover from a failover without anybody's " +
				"help: the holder still has its lease or knows of its loss, and each waiter " +
				"gets its turn"},
		{ID: "I41", Name: "tokens-rise-over-a-stale-replica", Run: s.staleReplica,
			Why: "the replica that takes over may have missed the latest writes, and with them " +
				"the latest values of the counter of tokens"},
		{ID: "I42", Name: "planned-failover-costs-no-lease", Run: s.plannedFailover,
			Why: "when an operator moves the master, the replica has all data; holders must " +
				"keep their leases"},
	}
}

// masterNode is the node that the sentinels call the master, and the others.
func (s *Service) masterNode(t conformance.T) (master *Node, replicas []*Node) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		addr, err := s.sentinels[0].master(ctx)
		for _, n := range s.Nodes {
			if n.Addr == addr {
				master = n
			} else {
				replicas = append(replicas, n)
			}
		}
		return err
	})
	return master, replicas
}

func (s *Service) failoverWhileWaiting(t conformance.T, _ *conformance.Harness) {
	holder, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, holder, name, locker.WithTTL(itest.LongTTL))
	var all []*step.Attempt
	for i := range 3 {
		all = append(all, step.StartAcquire(t, step.CloseAtEnd(t, s.Open(t)), name, locker.WithTTL(itest.LongTTL)))
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, i+1) })
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
		i := step.FirstGranted(t, itest.ShortWait, all)
		next := all[i].Granted(t, 0)
		if next.Token() <= last {
			t.Errorf("token %v after %v", next.Token(), last)
		}
		last = next.Token()
		step.Release(t, next)
		all = slices.Delete(all, i, i+1)
	}
}

// staleReplica keeps the replicas from following by a password that is wrong, and has the master
// crash.
func (s *Service) staleReplica(t conformance.T, _ *conformance.Harness) {
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	last := step.FreeWithin(t, 0, l, name)
	master, replicas := s.masterNode(t)
	setPassword := func(password string) {
		itest.Must(t, func(ctx context.Context) error {
			for _, n := range replicas {
				err := n.Admin.ConfigSet(ctx, "masterauth", password).Err()
				if err == nil {
					err = n.Admin.ConfigRewrite(ctx).Err() // as the sentinels do in a failover, and it would be the wrong one
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	t.Cleanup(func() {
		setPassword(Password)
		itest.Must(t, s.wait) // the next case needs replicas that follow, also when this one has failed
	})
	itest.Must(t, func(ctx context.Context) error { // they have an older token when they are cut off, and not none
		return itest.Until(ctx, func(ctx context.Context) error {
			for _, n := range replicas {
				if known, err := n.Admin.Get(ctx, key(name)+":token").Result(); err != nil || known != fmt.Sprint(last) {
					return errors.Join(err, fmt.Errorf("replica %s knows the token %s, not %d yet", n.Addr, known, last))
				}
			}
			return nil
		})
	})
	setPassword("wrong")
	itest.Must(t, func(ctx context.Context) error {
		return master.Admin.Do(ctx, "client", "kill", "type", "replica").Err()
	})
	for range 100 {
		last = step.FreeWithin(t, 0, l, name)
	}
	itest.Must(t, func(ctx context.Context) error {
		for _, n := range replicas {
			known, err := n.Admin.Get(ctx, key(name)+":token").Result()
			if err != nil || known == fmt.Sprint(last) {
				return errors.Join(err, fmt.Errorf("replica %s knows the last token, so this case would prove nothing", n.Addr))
			}
		}
		return nil
	})
	itest.Must(t, func(ctx context.Context) error {
		former, err := s.crashMaster(ctx)
		if err != nil {
			return err
		}
		setPassword(Password)
		return s.rejoin(ctx, former)
	})
	if token := step.FreeWithin(t, itest.ShortWait, l, name); token <= last {
		t.Errorf("token %v after %v", token, last)
	}
}

// plannedFailover leaves the former master alive until it is made a replica, with all its
// connections.
func (s *Service) plannedFailover(t conformance.T, _ *conformance.Harness) {
	itest.Must(t, func(ctx context.Context) error { return itest.Until(ctx, s.notInTilt) })
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(4*itest.ShortTTL))
	former, _ := s.masterNode(t)
	itest.Must(t, func(ctx context.Context) error {
		return itest.Until(ctx, func(ctx context.Context) error {
			addr, err := s.sentinels[0].master(ctx)
			if err != nil || addr != former.Addr {
				return errors.Join(err, s.follow(ctx, former))
			}
			// A sentinel that doesn't see the promotion within failover-timeout gives it up, and
			// has to be asked again.
			return errors.Join(fmt.Errorf("the master is still %s", former.Addr), s.sentinels[0].Admin.Do(ctx, "sentinel", "failover", group).Err())
		})
	})
	step.Pass(t, 8*itest.ShortTTL) // it has to be renewed on the new master
	step.WantLive(t, lease, other)
	step.Release(t, lease)
	step.FreeWithin(t, itest.ShortWait, other, name)
	itest.Must(t, s.wait)
}

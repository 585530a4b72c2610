//go:build unix

package zk

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/integration/netns"
	"github.com/fencedlock/locker/zkbackend"
)

// These cases cut one direction of a connection, remove the data, or change the leader late.

// zkSilentTTLs are of two sessions of one Locker. With the slack both are over before an acquisition
// gives up that hears nothing.
var zkSilentTTLs = []time.Duration{TTL / 2, 3 * TTL / 2}

// zkSilenced is the state of a Locker that no longer receives answers of the servers.
type zkSilenced struct {
	leases []locker.Lease
	rivals []*step.Attempt // one for each of the leases
	taken  locker.Lease    // which the Locker waits for
	waiter *step.Attempt
}

// silence has l hold locks with several TTLs, and wait for one, until cut is called. It returns
// when each rival has got its lock, in time.
func (s *Service) silence(t conformance.T, l, rival locker.Locker, cut func()) (x zkSilenced) {
	t.Helper()
	x.taken = step.Acquire(t, rival, step.LockName(t), locker.WithTTL(itest.LongTTL/2))
	for _, each := range zkSilentTTLs {
		lease := step.Acquire(t, l, step.LockName(t), locker.WithTTL(each))
		x.leases, x.rivals = append(x.leases, lease), append(x.rivals, step.StartAcquire(t, rival, lease.Name()))
		step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, lease.Name(), 1) })
	}
	x.waiter = step.StartAcquire(t, l, x.taken.Name())
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, x.taken.Name(), 1) })
	cut()
	began := time.Now()
	for i, each := range zkSilentTTLs {
		next := x.rivals[i].Granted(t, step.Limit)
		took, bound := time.Since(began), each+l.Guarantees().Expiry.Slack
		if err := x.leases[i].Err(); err == nil {
			t.Errorf("TTL %v: the rival has the lock, and its holder believes in its lease until %v", each, x.leases[i].Deadline())
		}
		t.Logf("TTL %v: the rival had the lock %v after the cut; the bound is %v", each, took, bound)
		if took > bound+itest.ShortWait {
			t.Errorf("TTL %v: the rival had the lock %v after the cut, want %v, and what a busy machine takes", each, took, bound)
		}
		step.Release(t, next)
	}
	x.waiter.WantPending(t)
	return x
}

// heard wants the Locker to work when it hears the servers again: its wait goes on, its locks can
// be had, and Close confirms that nothing is left.
func (x *zkSilenced) heard(t conformance.T, s *Service, l locker.Locker) {
	t.Helper()
	step.Eventually(t, step.Limit, func() error { return s.waiting(t, x.taken.Name(), 1) })
	for _, lease := range x.leases {
		step.FreeWithin(t, step.Limit, l, lease.Name())
	}
	step.Release(t, x.taken)
	step.Release(t, x.waiter.Granted(t, itest.ShortWait))
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
}

// answersLost loses the answers alone, on old and new connections. The servers are connected with
// all the time.
func (s *Service) answersLost(t conformance.T, _ *conformance.Harness) {
	rival := step.CloseAtEnd(t, s.Open(t))
	l, network := s.linked(t, zkbackend.WithDefaultTTL(TTL))
	step.CloseAtEnd(t, l)
	x := s.silence(t, l, rival, func() { network.Drop(math.MaxInt) })
	network.Heal()
	x.heard(t, s, l)
}

// TestZkPacketsOfAnswersAreLost is I10 below TCP, where no connection can be made any more, and
// none notices.
func TestZkPacketsOfAnswersAreLost(t *testing.T) {
	itest.NeedServers(t)
	if err := netns.Usable(); err != nil {
		t.Skip(err)
	}
	s := itest.Started(t, "zookeeper", startZk)
	at := &itest.CutTarget{Servers: make(map[string]string)}
	for _, server := range s.Servers {
		at.Servers[itest.LocalAddr(server.Port)] = server.ID
	}
	network := at.Network(t)
	rival := step.CloseAtEnd(t, s.Open(t))
	l := step.CloseAtEnd(t, s.Through(t, network.Dial, s.Addrs(), zkbackend.WithDefaultTTL(TTL)))
	t.Cleanup(func() { itest.Must(t, network.Heal) }) // before the Locker is closed
	x := s.silence(t, l, rival, func() {
		itest.Must(t, func(ctx context.Context) error { return network.Cut(ctx, netns.Replies) })
	})
	itest.Must(t, network.Heal)
	x.heard(t, s, l)
}

func (s *Service) wiped(t conformance.T, _ *conformance.Harness) {
	l, other := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t))
	for range 200 { // so that these Lockers have seen more than the new ensemble knows
		step.Release(t, step.Acquire(t, l, step.LockName(t), locker.WithTTL(zkLongTTL)))
	}
	lease, taken := step.Acquire(t, l, step.LockName(t), locker.WithTTL(TTL)), step.Acquire(t, other, step.LockName(t), locker.WithTTL(TTL))
	waiter := step.StartAcquire(t, l, taken.Name(), locker.WithTTL(zkLongTTL))
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, taken.Name(), 1) })
	s.wipe(t)
	step.LostWithin(t, time.Until(lease.Deadline())+itest.ShortWait, lease)
	step.LostWithin(t, time.Until(taken.Deadline())+itest.ShortWait, taken)
	step.Release(t, waiter.Granted(t, zkLongTTL+step.Limit))
	for _, each := range []locker.Locker{l, other} {
		for _, name := range []string{lease.Name(), taken.Name()} {
			step.FreeWithin(t, step.Limit, each, name)
		}
		step.Release(t, step.Acquire(t, each, lease.Name(), locker.WithTTL(TTL)))
		if err := each.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
}

// leaderDiesLate has a holder fall silent, and the leader die shortly before it would have ended
// the holder's session.
func (s *Service) leaderDiesLate(t conformance.T, _ *conformance.Harness) {
	for range 5 {
		if s.leaderDies(t) {
			return
		}
		t.Logf("the leader was killed too late: the session had ended")
	}
	t.Errorf("the leader was always killed too late: this case proves nothing")
}

// leaderDies returns false when the session had ended before the leader was dead.
func (s *Service) leaderDies(t conformance.T) bool {
	const each = 4 * TTL
	rival := step.CloseAtEnd(t, s.Open(t))
	l, network := s.linked(t, zkbackend.WithDefaultTTL(each))
	step.CloseAtEnd(t, l)
	lease := step.Acquire(t, l, step.LockName(t))
	next := step.StartAcquire(t, rival, lease.Name(), locker.WithTTL(each))
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, lease.Name(), 1) })
	var former *zkServer
	itest.Must(t, func(ctx context.Context) (err error) { former, err = s.leader(ctx); return err })
	defer func() {
		itest.Must(t, func(ctx context.Context) error { return errors.Join(s.docker(ctx, "start", former), s.wait(ctx)) })
	}()
	network.Cut()
	t.Cleanup(network.Heal) // before the Locker is closed
	began := time.Now()
	slack := l.Guarantees().Expiry.Slack
	timeout := each + slack - 2*s.tick // by docs/zookeeper.md
	step.Pass(t, each)                 // the session has TTL + 1.5 s at least
	itest.Must(t, func(ctx context.Context) error { return s.docker(ctx, "kill", former) })
	killed := time.Since(began)
	itest.Must(t, func(ctx context.Context) error { _, err := s.leader(ctx, former); return err })
	leads := time.Since(began)
	lease2 := next.Granted(t, step.Limit)
	free, bound := time.Since(began), leads+timeout+s.tick*3/2
	step.Release(t, lease2)
	t.Logf("after the cut: the leader was dead at %v, the next one led at %v, the lock was free at %v; TTL + slack is %v, the bound %v",
		killed, leads, free, each+slack, bound)
	if err := lease.Err(); err == nil {
		t.Errorf("the rival has the lock, and its holder believes in its lease until %v", lease.Deadline())
	}
	if free > bound+itest.ShortWait {
		t.Errorf("the lock was free %v after the cut, want %v, and what a busy machine takes", free, bound)
	}
	return free > each+slack
}

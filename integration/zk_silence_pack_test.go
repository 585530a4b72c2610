//go:build unix

package integration

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/netns"
	"github.com/fencedlock/locker/zkbackend"
)

// What cuts of one direction, a loss of the data and a late change of the leader do to locks.

// zkSilentTTLs are of two sessions of one Locker.
var zkSilentTTLs = []time.Duration{zkTTL, 3 * zkTTL}

// zkSilenced is what a Locker has that stops to hear the servers.
type zkSilenced struct {
	leases []locker.Lease
	rivals []*waiting   // one for each of the leases
	taken  locker.Lease // which the Locker waits for
	waiter *waiting
}

// silence has l hold locks with several TTLs, and wait for one, until cut is called. It returns when each rival has got its lock, in time.
func (s *zkService) silence(t conformance.T, l, rival locker.Locker, cut func()) (x zkSilenced) {
	t.Helper()
	x.taken = acquire(t, rival, lockName(t), locker.WithTTL(far/2))
	for _, each := range zkSilentTTLs {
		lease := acquire(t, l, lockName(t), locker.WithTTL(each))
		x.leases, x.rivals = append(x.leases, lease), append(x.rivals, wait(t, rival, lease.Name()))
		eventually(t, soon, func() error { return s.waiting(t, lease.Name(), 1) })
	}
	x.waiter = wait(t, l, x.taken.Name())
	eventually(t, soon, func() error { return s.waiting(t, x.taken.Name(), 1) })
	cut()
	began := time.Now()
	for i, each := range zkSilentTTLs {
		next := x.rivals[i].granted(t, hang)
		took, bound := time.Since(began), each+l.Guarantees().Expiry.Slack
		if err := x.leases[i].Err(); err == nil {
			t.Errorf("TTL %v: the rival has the lock, and its holder believes in its lease until %v", each, x.leases[i].Deadline())
		}
		t.Logf("TTL %v: the rival had the lock %v after the cut; the bound is %v", each, took, bound)
		if took > bound+soon {
			t.Errorf("TTL %v: the rival had the lock %v after the cut, want %v, and what a busy machine takes", each, took, bound)
		}
		release(t, next)
	}
	x.waiter.pending(t)
	return x
}

// heard wants the Locker to work when it hears the servers again: its wait goes on, its locks can be had, and Close confirms that nothing
// is left.
func (x *zkSilenced) heard(t conformance.T, s *zkService, l locker.Locker) {
	t.Helper()
	eventually(t, hang, func() error { return s.waiting(t, x.taken.Name(), 1) })
	for _, lease := range x.leases {
		free(t, hang, l, lease.Name())
	}
	release(t, x.taken)
	release(t, x.waiter.granted(t, soon))
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
}

// answersLost loses the answers alone, on old and new connections. The servers are connected with all the time.
func (s *zkService) answersLost(t conformance.T, _ *conformance.Harness) {
	rival := keep(t, s.open(t))
	l, network := s.linked(t, zkbackend.WithDefaultTTL(zkTTL))
	keep(t, l)
	x := s.silence(t, l, rival, func() { network.Drop(math.MaxInt) })
	network.Heal()
	x.heard(t, s, l)
}

// TestZkPacketsOfAnswersAreLost is I10 below TCP, where no connection can be made any more, and none notices.
func TestZkPacketsOfAnswersAreLost(t *testing.T) {
	needServers(t)
	if err := netns.Usable(); err != nil {
		t.Skip(err)
	}
	s := started(t, "zookeeper", startZk)
	at := &cutAt{servers: make(map[string]string)}
	for _, server := range s.servers {
		at.servers[local(server.port)] = server.id
	}
	network := at.network(t)
	rival := keep(t, s.open(t))
	l := keep(t, s.through(t, network.Dial, s.addrs(), zkbackend.WithDefaultTTL(zkTTL)))
	t.Cleanup(func() { must(t, network.Heal) }) // before the Locker is closed
	x := s.silence(t, l, rival, func() {
		must(t, func(ctx context.Context) error { return network.Cut(ctx, netns.Replies) })
	})
	must(t, network.Heal)
	x.heard(t, s, l)
}

func (s *zkService) wiped(t conformance.T, _ *conformance.Harness) {
	l, other := keep(t, s.open(t)), keep(t, s.open(t))
	for range 200 { // so that these Lockers have seen more than the new ensemble knows
		release(t, acquire(t, l, lockName(t), locker.WithTTL(zkLongTTL)))
	}
	lease, taken := acquire(t, l, lockName(t), locker.WithTTL(zkTTL)), acquire(t, other, lockName(t), locker.WithTTL(zkTTL))
	waiter := wait(t, l, taken.Name(), locker.WithTTL(zkLongTTL))
	eventually(t, soon, func() error { return s.waiting(t, taken.Name(), 1) })
	s.wipe(t)
	lost(t, time.Until(lease.Deadline())+soon, lease)
	lost(t, time.Until(taken.Deadline())+soon, taken)
	release(t, waiter.granted(t, zkLongTTL+hang))
	for _, each := range []locker.Locker{l, other} {
		for _, name := range []string{lease.Name(), taken.Name()} {
			free(t, hang, each, name)
		}
		release(t, acquire(t, each, lease.Name(), locker.WithTTL(zkTTL)))
		if err := each.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
}

// leaderDiesLate has a holder fall silent, and the leader die shortly before it would have ended the holder's session.
func (s *zkService) leaderDiesLate(t conformance.T, _ *conformance.Harness) {
	for range 5 {
		if s.leaderDies(t) {
			return
		}
		t.Logf("the leader was killed too late: the session had ended")
	}
	t.Errorf("the leader was always killed too late: this case proves nothing")
}

// leaderDies returns false when the session had ended before the leader was dead.
func (s *zkService) leaderDies(t conformance.T) bool {
	const each = 4 * zkTTL
	rival := keep(t, s.open(t))
	l, network := s.linked(t, zkbackend.WithDefaultTTL(each))
	keep(t, l)
	lease := acquire(t, l, lockName(t))
	next := wait(t, rival, lease.Name(), locker.WithTTL(each))
	eventually(t, soon, func() error { return s.waiting(t, lease.Name(), 1) })
	var former *zkServer
	must(t, func(ctx context.Context) (err error) { former, err = s.leader(ctx); return err })
	defer func() {
		must(t, func(ctx context.Context) error { return errors.Join(s.docker(ctx, "start", former), s.wait(ctx)) })
	}()
	network.Cut()
	t.Cleanup(network.Heal) // before the Locker is closed
	began := time.Now()
	slack := l.Guarantees().Expiry.Slack
	timeout := each + slack - 2*s.tick // by docs/zookeeper.md
	pass(t, each)                      // the session has TTL + 1.5 s at least
	must(t, func(ctx context.Context) error { return s.docker(ctx, "kill", former) })
	killed := time.Since(began)
	must(t, func(ctx context.Context) error { _, err := s.leader(ctx, former); return err })
	leads := time.Since(began)
	lease2 := next.granted(t, hang)
	free, bound := time.Since(began), leads+timeout+s.tick*3/2
	release(t, lease2)
	t.Logf("after the cut: the leader was dead at %v, the next one led at %v, the lock was free at %v; TTL + slack is %v, the bound %v",
		killed, leads, free, each+slack, bound)
	if err := lease.Err(); err == nil {
		t.Errorf("the rival has the lock, and its holder believes in its lease until %v", lease.Deadline())
	}
	if free > bound+soon {
		t.Errorf("the lock was free %v after the cut, want %v, and what a busy machine takes", free, bound)
	}
	return free > each+slack
}

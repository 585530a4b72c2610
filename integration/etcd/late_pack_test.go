//go:build unix

package etcd

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// latePack is requests and replies that come late or not at all, while the session lives on: no TTL
// tidies up then.
func (s *Service) latePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I20", Name: "late-acquire-leaves-no-key", Run: s.lateAcquire,
			Why: "a Txn that is executed after its clean-up would hold the name as long as the " +
				"session lives, and the session has no end"},
		{ID: "I21", Name: "lost-lease-on-a-live-session-frees-the-name", Run: s.lostOnALiveSession,
			Why: "the cluster receives each renewal, and the holder receives no answer: the " +
				"holder gives its locks up, and the cluster alone would never free them"},
		{ID: "I22", Name: "release-with-a-lost-reply-spares-the-next-lease", Run: s.releasedTwice,
			Why: "when the release is repeated, the same Locker may hold the lock again on the " +
				"same session"},
	}
}

// apart opens a Locker that asks one member first, with a network to it alone.
func (s *Service) apart(t conformance.T, m *etcdMember) (locker.Locker, *proxy.Network) {
	t.Helper()
	members := append([]*etcdMember{m}, s.others(m)...)
	endpoints := make([]string, len(members))
	for i, m := range members {
		endpoints[i] = itest.LocalAddr(m.Port)
	}
	config, network := s.configThrough(t, endpoints)
	config.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		if addr == endpoints[0] {
			return network.Dial(ctx, "tcp", addr)
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	})}
	return step.CloseAtEnd(t, NewLocker(t, config)), network
}

// lateAcquire has the first request of an acquisition arrive after the acquisition was answered by
// another member, and cleaned up. What the client sends after that request, to take it back,
// arrives later still. Another lock keeps the session alive.
func (s *Service) lateAcquire(t conformance.T, _ *conformance.Harness) {
	const late = 2 * time.Second
	for _, gone := range []bool{false, true} { // the caller, before the answer
		l, network := s.apart(t, s.follows(t))
		other, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		alive := step.Acquire(t, l, step.LockName(t), locker.WithTTL(steady))
		session := s.session(t, alive.Name())
		network.Delay(late, 0)
		began := time.Now()
		waiter := step.StartAcquire(t, l, name, locker.WithTTL(steady))
		step.Pass(t, late/8)
		network.Delay(10*late, 0)
		if gone {
			waiter.Cancel(nil)
		}
		if !waiter.Returned(itest.ShortWait) {
			t.Fatalf("Acquire has not returned")
		}
		if waiter.Err == nil {
			step.Release(t, waiter.Lease)
		} else {
			t.Logf("Acquire = %v", waiter.Err)
		}
		step.Pass(t, time.Until(began.Add(2*late)))
		var left []string
		itest.Must(t, func(ctx context.Context) (err error) { left, err = s.queue(ctx, name); return err })
		if len(left) > 0 {
			t.Errorf("%q stand, and nobody has or wants the lock", left)
		}
		if now := s.session(t, alive.Name()); now != session {
			t.Logf("the session was replaced meanwhile")
		}
		step.FreeWithin(t, 0, other, name)
		network.Heal()
		step.FreeWithin(t, itest.ShortWait, l, name)
		step.WantLive(t, alive, other)
		step.Release(t, alive)
	}
}

// lostOnALiveSession lets requests through and keeps replies back for longer than the TTL.
func (s *Service) lostOnALiveSession(t conformance.T, _ *conformance.Harness) {
	l, network := s.proxied(t)
	step.CloseAtEnd(t, l)
	other := step.CloseAtEnd(t, s.Open(t))
	var leases []locker.Lease
	for range 5 {
		leases = append(leases, step.Acquire(t, l, step.LockName(t), locker.WithTTL(TTL)))
	}
	session := s.session(t, leases[0].Name())
	network.Delay(0, 2*TTL)
	for _, lease := range leases {
		step.LostWithin(t, TTL+itest.ShortWait, lease)
	}
	standing := 0
	for _, id := range s.leases(t) {
		if id == session {
			standing++
		}
	}
	t.Logf("%d sessions of the lost leases live on", standing)
	network.Heal()
	for _, lease := range leases {
		step.FreeWithin(t, 2*TTL+itest.ShortWait, other, lease.Name())
		step.FreeWithin(t, 2*TTL+itest.ShortWait, l, lease.Name()) // its connections still bring what was kept back
	}
}

func (s *Service) releasedTwice(t conformance.T, _ *conformance.Harness) {
	l, network := s.proxied(t)
	step.CloseAtEnd(t, l)
	other, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	for range 2 {
		lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
		network.DropReplyTo(name)
		if err := lease.Release(t.Context()); err != nil {
			t.Logf("Release whose reply was lost = %v", err)
		}
		next := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
		network.Heal()
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release once more = %v, want nil", err)
		}
		step.Pass(t, itest.ShortWait/10)
		step.WantLive(t, next, other)
		if err := next.Renew(t.Context()); err != nil {
			t.Errorf("Renew = %v, want nil", err)
		}
		step.Release(t, next)
		step.FreeWithin(t, 0, other, name)
	}
}

//go:build unix

package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// pack contains the cases of Redis for this service, in addition to the suite.
func (s *Service) pack() []conformance.Case {
	common := []conformance.Case{
		{ID: "I1", Name: "script-flush-is-survived", Run: s.scriptFlush,
			Why: "an operator may empty the script cache at any time, and a restart empties it; " +
				"no operation may fail because of that"},
		{ID: "I2", Name: "killed-clients-cost-nothing", Run: s.clientsKilled,
			Why: "CLIENT KILL, a proxy or a firewall can end a connection; leases must not " +
				"depend on connections"},
		{ID: "I3", Name: "password-changes-while-running", Run: s.passwordChanged,
			Why: "after the password was changed the server refuses new connections; the error " +
				"must say so, and must not contain the password"},
		{ID: "I4", Name: "flushall-is-noticed", Run: s.flushedWhileHeld,
			Why: "FLUSHALL removes all locks: the holder must notice its loss, and the waiters " +
				"must get their turn"},
		{ID: "I5", Name: "mistakes-in-the-url-are-named", Run: s.mistakes,
			Why: "a user that reads the error must know what to correct; another case of the " +
				"suite checks that the error comes in time and shows no secret"},
	}
	switch {
	case s.client.IsClusterMode:
		return slices.Concat(common, s.clusterPack())
	case s.failover != nil:
		return slices.Concat(common, s.queuePack(), s.sentinelPack())
	}
	return slices.Concat(common, s.troublePack(), s.queuePack(), s.memoryPack(), s.databasePack())
}

// all has every node that takes writes carry a command out.
func (s *Service) all(t conformance.T, args ...any) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *Node) error { return n.Admin.Do(ctx, args...).Err() })
	})
}

func (s *Service) scriptFlush(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	calm := step.Acquire(t, l, step.LockName(t), locker.WithTTL(itest.LongTTL)) // its renewals have time
	s.all(t, "script", "flush")
	if err := calm.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	waiter := step.StartAcquire(t, other, name)
	s.all(t, "script", "flush")
	step.Pass(t, 2*itest.ShortTTL) // renewed in the background
	step.WantLive(t, lease, other)
	waiter.WantPending(t)
	s.all(t, "script", "flush")
	step.Release(t, lease)
	next := waiter.Granted(t, itest.ShortWait)
	s.all(t, "script", "flush")
	step.Release(t, next)
	s.all(t, "script", "flush")
	step.FreeWithin(t, 0, l, name)
}

func (s *Service) clientsKilled(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	calm := step.Acquire(t, l, step.LockName(t), locker.WithTTL(itest.LongTTL)) // its renewals have time
	waiter := step.StartAcquire(t, other, name)
	for range 5 {
		s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
		s.all(t, "client", "kill", "type", "pubsub")
		if err := calm.Renew(t.Context()); err != nil {
			t.Errorf("the first Renew after the connections were killed = %v, want nil", err)
		}
		step.FreeWithin(t, 0, l, step.LockName(t))
		step.Pass(t, itest.ShortTTL/2)
		step.WantLive(t, lease, l)
	}
	waiter.WantPending(t)
	s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, itest.ShortWait))

	// While a request is under way.
	s.all(t, "client", "pause", itest.LongTTL.Milliseconds(), "write")
	t.Cleanup(func() { s.all(t, "client", "unpause") })
	asks := step.StartAcquire(t, l, step.LockName(t))
	step.Eventually(t, itest.ShortWait, func() error { return s.underWay(t, 1) })
	s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
	s.all(t, "client", "unpause")
	step.Release(t, asks.Granted(t, itest.ShortWait))
}

// underWay is nil when n requests of Lockers are held back by CLIENT PAUSE. It holds what Sentinels
// publish back as well.
func (s *Service) underWay(t conformance.T, n int) error {
	t.Helper()
	blocked := 0
	itest.Must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, node *Node) error {
			list, err := node.Admin.ClientList(ctx).Result()
			for line := range strings.Lines(list) {
				if strings.Contains(line, " flags=b ") && strings.Contains(line, " cmd=eval") {
					blocked++
				}
			}
			return err
		})
	})
	if blocked != n {
		return fmt.Errorf("%d requests are under way, want %d", blocked, n)
	}
	return nil
}

// passwordChanged breaks the connections, because those that stand stay valid.
func (s *Service) passwordChanged(t conformance.T, _ *conformance.Harness) {
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	step.FreeWithin(t, 0, l, name)
	back := func() { s.all(t, "config", "set", "requirepass", Password) }
	t.Cleanup(back)
	s.all(t, "config", "set", "requirepass", "another")
	s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
	err := step.WantFailure(t, itest.ShortWait, l, name)
	if !strings.Contains(err.Error(), "WRONGPASS") && !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("TryAcquire = %v, want it to name the password as the reason", err)
	}
	if strings.Contains(err.Error(), Password) {
		t.Errorf("the error shows the password: %v", err)
	}
	back()
	step.FreeWithin(t, itest.ShortWait, l, name)
}

func (s *Service) flushedWhileHeld(t conformance.T, _ *conformance.Harness) {
	l, other, third, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(itest.ShortTTL))
	if !s.client.IsClusterMode { // where they poll, and have no queue
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
	}
	s.flush(t)
	step.LostWithin(t, itest.ShortTTL+itest.ShortWait, lease)
	next := waiter.Granted(t, itest.ShortTTL+itest.ShortWait)
	if next.Token() <= lease.Token() {
		t.Errorf("token %v after %v", next.Token(), lease.Token())
	}
	step.WantLive(t, next, third)
	step.Release(t, next)
	step.FreeWithin(t, 0, third, name)
}

func (s *Service) mistakes(t conformance.T, h *conformance.Harness) {
	for what, says := range map[string]string{"port": "connection refused", "password": "WRONGPASS", "user": "WRONGPASS"} {
		itest.RefusedAtOpen(t, h.BadURLs[what], says)
	}
	if s.client.IsClusterMode {
		itest.RefusedAtOpen(t, h.BadURLs["database"], "database")
		itest.RefusedAtOpen(t, redisURL(s.Nodes[:1]), "cluster=true")
	} else {
		itest.RefusedAtOpen(t, h.BadURLs["database"], "DB index")
	}
	if len(s.sentinels) > 0 {
		itest.RefusedAtOpen(t, h.BadURLs["server's password"], "WRONGPASS")
		itest.RefusedAtOpen(t, h.BadURLs["Sentinel"], "master_name")
	}
}

// changedConfig sets a parameter of all nodes until the function that it returns is called, or the
// case ends.
func (s *Service) changedConfig(t conformance.T, name, value, normal string) (back func()) {
	t.Helper()
	back = func() { s.all(t, "config", "set", name, normal) }
	t.Cleanup(back)
	s.all(t, "config", "set", name, value)
	return back
}

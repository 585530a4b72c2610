//go:build unix

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// pack is what Redis must show beyond the suite, in the way in which this service is run.
func (s *redisService) pack() []conformance.Case {
	common := []conformance.Case{
		{ID: "I1", Name: "script-flush-is-survived", Run: s.scriptFlush,
			Why: "an operator may empty the script cache at any time, and a restart does; no operation may fail for it"},
		{ID: "I2", Name: "killed-clients-cost-nothing", Run: s.clientsKilled,
			Why: "CLIENT KILL, a proxy and a firewall end connections; leases don't hang on them"},
		{ID: "I3", Name: "password-changes-while-running", Run: s.passwordChanged,
			Why: "new connections are refused then, and the error must say so, without the password"},
		{ID: "I4", Name: "flushall-is-noticed", Run: s.flushedWhileHeld,
			Why: "FLUSHALL takes all locks away: the holder must learn it, and waiters must come to their turn"},
		{ID: "I5", Name: "mistakes-in-the-url-are-named", Run: s.mistakes,
			Why: "whoever reads the error must know what to correct; that it came in time and shows no secret is a case of the suite"},
	}
	switch {
	case s.client.IsClusterMode:
		return slices.Concat(common, s.clusterPack())
	case s.failover != nil:
		return slices.Concat(common, s.queuePack(), s.sentinelPack())
	}
	return slices.Concat(common, s.troublePack(), s.queuePack(), s.memoryPack())
}

// all has every node that takes writes carry a command out.
func (s *redisService) all(t conformance.T, args ...any) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redisNode) error { return n.admin.Do(ctx, args...).Err() })
	})
}

func (s *redisService) scriptFlush(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(shortTTL))
	calm := acquire(t, l, lockName(t), locker.WithTTL(far)) // its renewals have time
	s.all(t, "script", "flush")
	if err := calm.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	waiter := wait(t, other, name)
	s.all(t, "script", "flush")
	pass(t, 2*shortTTL) // renewed in the background
	held(t, lease, other)
	waiter.pending(t)
	s.all(t, "script", "flush")
	release(t, lease)
	next := waiter.granted(t, soon)
	s.all(t, "script", "flush")
	release(t, next)
	s.all(t, "script", "flush")
	free(t, 0, l, name)
}

func (s *redisService) clientsKilled(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(shortTTL))
	calm := acquire(t, l, lockName(t), locker.WithTTL(far)) // its renewals have time
	waiter := wait(t, other, name)
	for range 5 {
		s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
		s.all(t, "client", "kill", "type", "pubsub")
		if err := calm.Renew(t.Context()); err != nil {
			t.Errorf("the first Renew after the connections were killed = %v, want nil", err)
		}
		free(t, 0, l, lockName(t))
		pass(t, shortTTL/2)
		held(t, lease, l)
	}
	waiter.pending(t)
	s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
	release(t, lease)
	release(t, waiter.granted(t, soon))

	// While a request is under way.
	s.all(t, "client", "pause", far.Milliseconds(), "write")
	t.Cleanup(func() { s.all(t, "client", "unpause") })
	asks := wait(t, l, lockName(t))
	eventually(t, soon, func() error { return s.underWay(t, 1) })
	s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
	s.all(t, "client", "unpause")
	release(t, asks.granted(t, soon))
}

// underWay is nil when n requests of Lockers are held back by CLIENT PAUSE. It holds what Sentinels publish back as well.
func (s *redisService) underWay(t conformance.T, n int) error {
	t.Helper()
	blocked := 0
	must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, node *redisNode) error {
			list, err := node.admin.ClientList(ctx).Result()
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
func (s *redisService) passwordChanged(t conformance.T, _ *conformance.Harness) {
	l, name := keep(t, s.open(t)), lockName(t)
	free(t, 0, l, name)
	back := func() { s.all(t, "config", "set", "requirepass", redisPassword) }
	t.Cleanup(back)
	s.all(t, "config", "set", "requirepass", "another")
	s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
	err := refused(t, soon, l, name)
	if !strings.Contains(err.Error(), "WRONGPASS") && !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("TryAcquire = %v, want it to name the password as the reason", err)
	}
	if strings.Contains(err.Error(), redisPassword) {
		t.Errorf("the error shows the password: %v", err)
	}
	back()
	free(t, soon, l, name)
}

func (s *redisService) flushedWhileHeld(t conformance.T, _ *conformance.Harness) {
	l, other, third, name := keep(t, s.open(t)), keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(shortTTL))
	waiter := wait(t, other, name, locker.WithTTL(shortTTL))
	if !s.client.IsClusterMode { // where they poll, and have no queue
		eventually(t, soon, func() error { return s.queued(t, name, 1) })
	}
	s.flush(t)
	lost(t, shortTTL+soon, lease)
	next := waiter.granted(t, shortTTL+soon)
	if next.Token() <= lease.Token() {
		t.Errorf("token %v after %v", next.Token(), lease.Token())
	}
	held(t, next, third)
	release(t, next)
	free(t, 0, third, name)
}

func (s *redisService) mistakes(t conformance.T, h *conformance.Harness) {
	for what, says := range map[string]string{"port": "connection refused", "password": "WRONGPASS", "user": "WRONGPASS"} {
		refusedAtOpen(t, h.BadURLs[what], says)
	}
	if s.client.IsClusterMode {
		refusedAtOpen(t, h.BadURLs["database"], "database")
		refusedAtOpen(t, redisURL(s.nodes[:1]), "cluster=true")
	} else {
		refusedAtOpen(t, h.BadURLs["database"], "DB index")
	}
	if len(s.sentinels) > 0 {
		refusedAtOpen(t, h.BadURLs["server's password"], "WRONGPASS")
		refusedAtOpen(t, h.BadURLs["Sentinel"], "master_name")
	}
}

// changedConfig sets a parameter of all nodes until the function that it returns is called, or the case ends.
func (s *redisService) changedConfig(t conformance.T, name, value, normal string) (back func()) {
	t.Helper()
	back = func() { s.all(t, "config", "set", name, normal) }
	t.Cleanup(back)
	s.all(t, "config", "set", name, value)
	return back
}

//go:build unix

package integration

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

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
	s.must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redisNode) error { return n.admin.Do(ctx, args...).Err() })
	})
}

func (s *redisService) scriptFlush(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(shortTTL))
	s.all(t, "script", "flush")
	if err := lease.Renew(t.Context()); err != nil {
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
	waiter := wait(t, other, name)
	for range 5 {
		s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
		s.all(t, "client", "kill", "type", "pubsub")
		if err := lease.Renew(t.Context()); err != nil {
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

// changedConfig sets a parameter of all nodes until the function that it returns is called, or the case ends.
func (s *redisService) changedConfig(t conformance.T, name, value, normal string) (back func()) {
	t.Helper()
	back = func() { s.all(t, "config", "set", name, normal) }
	t.Cleanup(back)
	s.all(t, "config", "set", name, value)
	return back
}

// refusedAtOpen opens a Locker, which must fail soon with an error that has all of words in it.
func refusedAtOpen(t conformance.T, rawURL string, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	l, err := locker.Open(ctx, rawURL)
	if err == nil {
		_ = l.Close()
		t.Fatalf("Open = a Locker, want an error")
	}
	t.Logf("Open = %v", err)
	var e *locker.Error
	if !errors.As(err, &e) {
		t.Errorf("Open = %#v, want a *locker.Error", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("Open = %v, want %q in it", err, word)
		}
	}
	if u, parseErr := url.Parse(rawURL); parseErr == nil {
		if password, _ := u.User.Password(); strings.Contains(err.Error(), password) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// far is a TTL that no case waits for: what happens before it has not waited for it.
const far = time.Minute

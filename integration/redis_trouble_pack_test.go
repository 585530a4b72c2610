//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// troublePack is a server that refuses or hangs.
func (s *redisService) troublePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I10", Name: "full-memory-is-an-error", Run: s.outOfMemory,
			Why: "a server without memory refuses new locks; that is not somebody else's lease, and those that stand go on"},
		{ID: "I11", Name: "replica-is-an-error", Run: s.readOnly,
			Why: "a master that was made a replica can't grant or renew; who holds a lease must lose it in time, and all works when it is a master again"},
		{ID: "I12", Name: "eviction-is-refused-at-open", Run: s.evicting,
			Why: "a server that drops keys when its memory is short drops locks that are held; that must not be found out in production"},
		{ID: "I13", Name: "client-pause-is-survived-or-noticed", Run: s.clientPause,
			Why: "CLIENT PAUSE, which operators use for failovers, answers nobody for a while: a short one costs no lease, and the loss by a long one is known before the next grant"},
		{ID: "I14", Name: "busy-server-is-noticed", Run: s.debugSleep,
			Why: "a slow script or a KEYS blocks the whole server: callers get their time back, and the holder knows of its loss before the next grant"},
		{ID: "I15", Name: "silent-subscription-is-replaced", Run: s.silentSubscription,
			Why: "a firewall forgets connections on which little happens, and tells nobody; a waiter with a long TTL must not depend on one for minutes"},
	}
}

func (s *redisService) outOfMemory(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(shortTTL))
	waiter := wait(t, other, name, locker.WithTTL(shortTTL))
	eventually(t, soon, func() error { return s.queued(t, name, 1) })
	back := s.changedConfig(t, "maxmemory", "1mb", "0")

	if err := refused(t, soon, l, lockName(t)); !strings.Contains(err.Error(), "OOM") {
		t.Errorf("TryAcquire = %v, want it to name the memory as the reason", err)
	}
	pass(t, 2*shortTTL)
	if err := lease.Err(); err != nil {
		t.Errorf("Err = %v, want nil: renewals need no memory", err)
	}
	release(t, lease) // nor do releases, with a hand-off
	back()
	if !waiter.returned(shortTTL + soon) {
		t.Fatalf("Acquire has not returned, and the lock is free")
	}
	if waiter.err != nil && !strings.Contains(waiter.err.Error(), "OOM") { // a place in the queue takes memory
		t.Errorf("Acquire = %v, want a lease, or the memory as the reason", waiter.err)
	}
	if waiter.err == nil {
		release(t, waiter.lease)
	}
	free(t, soon, l, name)
}

func (s *redisService) readOnly(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(shortTTL))
	node := s.nodes[0]
	back := func() {
		must(t, func(ctx context.Context) error { return node.admin.ReplicaOf(ctx, "NO", "ONE").Err() })
	}
	t.Cleanup(back)
	must(t, func(ctx context.Context) error { return node.admin.ReplicaOf(ctx, "127.0.0.1", "1").Err() })
	if err := refused(t, soon, other, lockName(t)); !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("TryAcquire = %v, want it to say that the server is read-only", err)
	}
	refusedAtOpen(t, s.url, "replica", "on its master")
	deadline := lease.Deadline()
	lost(t, time.Until(deadline)+soon, lease)
	if late := time.Since(deadline); late > soon {
		t.Errorf("the loss was known %v after the deadline", late)
	}
	back()
	free(t, shortTTL+soon, other, name)
	free(t, soon, l, name)
}

func (s *redisService) evicting(t conformance.T, _ *conformance.Harness) {
	for _, policy := range []string{"allkeys-lru", "volatile-ttl", "allkeys-random"} {
		s.changedConfig(t, "maxmemory-policy", policy, "noeviction")
		refusedAtOpen(t, s.url, "maxmemory-policy", policy)
		accepts := keep(t, openURL(t, s.with("allow_eviction", "true")))
		free(t, 0, accepts, lockName(t))
	}
}

func (s *redisService) clientPause(t conformance.T, _ *conformance.Harness) {
	for _, mode := range []string{"all", "write"} {
		l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
		lease := acquire(t, l, name, locker.WithTTL(shortTTL))
		s.all(t, "client", "pause", (shortTTL / 4).Milliseconds(), mode)
		pass(t, 2*shortTTL)
		held(t, lease, other)

		s.all(t, "client", "pause", (3 * shortTTL).Milliseconds(), mode)
		waiter := wait(t, other, name)
		lost(t, shortTTL+soon, lease)
		if waiter.returned(0) && waiter.err == nil {
			t.Errorf("another had the lock when the loss was noticed")
		}
		free(t, 4*shortTTL+soon, keep(t, s.open(t)), lockName(t))
	}
}

// debugSleep has the server do nothing for three TTLs.
func (s *redisService) debugSleep(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(shortTTL))
	free(t, 0, other, lockName(t)) // and connects
	slept := make(chan error, 1)
	go func() {
		slept <- s.nodes[0].admin.Do(context.WithoutCancel(t.Context()), "debug", "sleep", (3 * shortTTL).Seconds()).Err()
	}()
	t.Cleanup(func() {
		if err := <-slept; err != nil {
			t.Errorf("DEBUG SLEEP = %v", err)
		}
	})
	eventually(t, soon, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), shortTTL/20)
		defer cancel()
		if s.nodes[0].admin.Ping(ctx).Err() == nil {
			return errors.New("the server is awake")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), shortTTL)
	defer cancel()
	began := time.Now()
	if _, err := locker.TryAcquire(ctx, other, name); err == nil || errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire on a server that hangs = %v, want an error that is not ErrHeld", err)
	}
	if took := time.Since(began); took > 2*shortTTL {
		t.Errorf("TryAcquire with a limit of %v returned after %v", shortTTL, took)
	}
	waiter := wait(t, other, name)
	lost(t, shortTTL+soon, lease)
	waiter.pending(t)
	if !waiter.returned(4*shortTTL + soon) {
		t.Fatalf("Acquire has not returned after the server was back")
	}
	if waiter.err != nil { // its request has hung for too long
		t.Logf("Acquire while the server slept = %v", waiter.err)
	} else {
		release(t, waiter.lease)
	}
	free(t, 4*shortTTL+soon, other, name)
}

// silentSubscription has the connection swallow the grant and all after it. Renewals come too late to notice.
func (s *redisService) silentSubscription(t conformance.T, _ *conformance.Harness) {
	const bound = 16 * time.Second // two looks and two pings without a sound, and a new connection
	l, name := keep(t, s.open(t)), lockName(t)
	cut, link := s.linked(t)
	keep(t, cut)
	t.Cleanup(link.Heal)
	lease := acquire(t, l, name, locker.WithTTL(far))
	waiter := wait(t, cut, name, locker.WithTTL(10*far))
	eventually(t, soon, func() error { return s.queued(t, name, 1) })
	eventually(t, soon, func() error { return s.answered(t, cut, name) })
	link.Drop(1)
	began := time.Now()
	release(t, lease)
	next := waiter.granted(t, bound+soon)
	if took := time.Since(began); took < time.Second {
		t.Errorf("the lock was granted after %v: no message was lost, so this case proves nothing", took)
	} else {
		t.Logf("the lock was granted after %v", took)
	}
	release(t, next)
}

// answered is nil when the waiter of a Locker knows that it is queued, so that the next message to it is another. Beside such a
// waiter nobody asks the server, who doesn't want to wait.
func (s *redisService) answered(t conformance.T, l locker.Locker, name string) error {
	t.Helper()
	before := s.requests(t)
	if _, err := locker.TryAcquire(t.Context(), l, name); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire = %v, want ErrHeld", err)
	}
	if n := s.requests(t) - before; n != 0 {
		return fmt.Errorf("%d requests were sent beside the waiter, want none", n)
	}
	return nil
}

//go:build unix

package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// troublePack tests a server that refuses requests or doesn't answer.
func (s *Service) troublePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I10", Name: "full-memory-is-an-error", Run: s.outOfMemory,
			Why: "a server without free memory refuses new locks; the error must not say that " +
				"the lock is held, and existing leases must continue"},
		{ID: "I11", Name: "replica-is-an-error", Run: s.readOnly,
			Why: "a master that was made a replica can't grant or renew; holders must lose " +
				"their leases in time, and everything must work when the server is a master " +
				"again"},
		{ID: "I12", Name: "eviction-is-refused-at-open", Run: s.evicting,
			Why: "a server that evicts keys when its memory is short also evicts locks that are " +
				"held; users must learn that before production"},
		{ID: "I13", Name: "client-pause-is-survived-or-noticed", Run: s.clientPause,
			Why: "operators use CLIENT PAUSE for failovers, and the server answers nobody " +
				"during the pause: a short pause must cost no lease, and after a long pause the " +
				"holder must know of its loss before the next grant"},
		{ID: "I14", Name: "busy-server-is-noticed", Run: s.debugSleep,
			Why: "a slow script or a KEYS blocks the whole server: callers must return when " +
				"their time is over, and the holder must know of its loss before the next grant"},
		{ID: "I15", Name: "silent-subscription-is-replaced", Run: s.silentSubscription,
			Why: "a firewall drops idle connections without notifying either side; a waiter " +
				"with a long TTL must not depend on a dropped connection for minutes"},
	}
}

func (s *Service) outOfMemory(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(itest.ShortTTL))
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
	back := s.changedConfig(t, "maxmemory", "1mb", "0")

	if err := step.WantFailure(t, itest.ShortWait, l, step.LockName(t)); !strings.Contains(err.Error(), "OOM") {
		t.Errorf("TryAcquire = %v, want it to name the memory as the reason", err)
	}
	step.Pass(t, 2*itest.ShortTTL)
	if err := lease.Err(); err != nil {
		t.Errorf("Err = %v, want nil: renewals need no memory", err)
	}
	step.Release(t, lease) // nor do releases, with a hand-off
	back()
	if !waiter.Returned(itest.ShortTTL + itest.ShortWait) {
		t.Fatalf("Acquire has not returned, and the lock is free")
	}
	if waiter.Err != nil && !strings.Contains(waiter.Err.Error(), "OOM") { // a place in the queue takes memory
		t.Errorf("Acquire = %v, want a lease, or the memory as the reason", waiter.Err)
	}
	if waiter.Err == nil {
		step.Release(t, waiter.Lease)
	}
	step.FreeWithin(t, itest.ShortWait, l, name)
}

func (s *Service) readOnly(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	node := s.Nodes[0]
	back := func() {
		itest.Must(t, func(ctx context.Context) error { return node.Admin.ReplicaOf(ctx, "NO", "ONE").Err() })
	}
	t.Cleanup(back)
	itest.Must(t, func(ctx context.Context) error { return node.Admin.ReplicaOf(ctx, "127.0.0.1", "1").Err() })
	if err := step.WantFailure(t, itest.ShortWait, other, step.LockName(t)); !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("TryAcquire = %v, want it to say that the server is read-only", err)
	}
	itest.RefusedAtOpen(t, s.URL, "replica", "on its master")
	deadline := lease.Deadline()
	step.LostWithin(t, time.Until(deadline)+itest.ShortWait, lease)
	if late := time.Since(deadline); late > itest.ShortWait {
		t.Errorf("the loss was known %v after the deadline", late)
	}
	back()
	step.FreeWithin(t, itest.ShortTTL+itest.ShortWait, other, name)
	step.FreeWithin(t, itest.ShortWait, l, name)
}

func (s *Service) evicting(t conformance.T, _ *conformance.Harness) {
	for _, policy := range []string{"allkeys-lru", "volatile-ttl", "allkeys-random"} {
		s.changedConfig(t, "maxmemory-policy", policy, "noeviction")
		itest.RefusedAtOpen(t, s.URL, "maxmemory-policy", policy)
		accepts := step.CloseAtEnd(t, itest.OpenURL(t, s.with("allow_eviction", "true")))
		step.FreeWithin(t, 0, accepts, step.LockName(t))
	}
}

func (s *Service) clientPause(t conformance.T, _ *conformance.Harness) {
	for _, mode := range []string{"all", "write"} {
		l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		const ttl = 2 * itest.ShortTTL
		lease := step.Acquire(t, l, name, locker.WithTTL(ttl))
		s.all(t, "client", "pause", (ttl / 4).Milliseconds(), mode)
		step.Pass(t, 2*ttl)
		step.WantLive(t, lease, other)
		step.Release(t, lease)

		lease = step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
		s.all(t, "client", "pause", (3 * itest.ShortTTL).Milliseconds(), mode)
		waiter := step.StartAcquire(t, other, name)
		step.LostWithin(t, itest.ShortTTL+itest.ShortWait, lease)
		if waiter.Returned(0) && waiter.Err == nil {
			t.Errorf("another had the lock when the loss was noticed")
		}
		step.FreeWithin(t, 4*itest.ShortTTL+itest.ShortWait, step.CloseAtEnd(t, s.Open(t)), step.LockName(t))
	}
}

// debugSleep blocks the server for four TTLs.
func (s *Service) debugSleep(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	step.FreeWithin(t, 0, other, step.LockName(t)) // and connects
	slept := make(chan error, 1)
	go func() {
		slept <- s.Nodes[0].Admin.Do(context.WithoutCancel(t.Context()), "debug", "sleep", (4 * itest.ShortTTL).Seconds()).Err()
	}()
	t.Cleanup(func() {
		if err := <-slept; err != nil {
			t.Errorf("DEBUG SLEEP = %v", err)
		}
	})
	step.Eventually(t, itest.ShortWait, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), itest.ShortTTL/20)
		defer cancel()
		if s.Nodes[0].Admin.Ping(ctx).Err() == nil {
			return errors.New("the server is awake")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), itest.ShortTTL)
	defer cancel()
	began := time.Now()
	if _, err := locker.TryAcquire(ctx, other, name); err == nil || errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire on a server that hangs = %v, want an error that is not ErrHeld", err)
	}
	if took := time.Since(began); took > 3*itest.ShortTTL {
		t.Errorf("TryAcquire with a limit of %v returned after %v", itest.ShortTTL, took)
	}
	waiter := step.StartAcquire(t, other, name)
	step.LostWithin(t, itest.ShortTTL+itest.ShortWait, lease)
	waiter.WantPending(t)
	if !waiter.Returned(5*itest.ShortTTL + itest.ShortWait) {
		t.Fatalf("Acquire has not returned after the server was back")
	}
	if waiter.Err != nil { // its request has hung for too long
		t.Logf("Acquire while the server slept = %v", waiter.Err)
	} else {
		step.Release(t, waiter.Lease)
	}
	step.FreeWithin(t, 4*itest.ShortTTL+itest.ShortWait, other, name)
}

// silentSubscription has the connection swallow the grant and all after it. Renewals come too late
// to notice.
func (s *Service) silentSubscription(t conformance.T, _ *conformance.Harness) {
	const bound = 16 * time.Second // two looks and two pings without a sound, and a new connection
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	cut, link := s.linked(t)
	step.CloseAtEnd(t, cut)
	t.Cleanup(link.Heal)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
	waiter := step.StartAcquire(t, cut, name, locker.WithTTL(10*itest.LongTTL))
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
	step.Eventually(t, itest.ShortWait, func() error { return s.answered(t, cut, name) })
	link.Drop(1)
	began := time.Now()
	step.Release(t, lease)
	next := waiter.Granted(t, bound+itest.ShortWait)
	if took := time.Since(began); took < time.Second {
		t.Errorf("the lock was granted after %v: no message was lost, so this case proves nothing", took)
	} else {
		t.Logf("the lock was granted after %v", took)
	}
	step.Release(t, next)
}

// answered returns nil when the waiter of a Locker knows that it is queued, so that the next
// message to it is another one. While such a waiter exists, a caller of the same Locker that
// doesn't want to wait sends no request.
func (s *Service) answered(t conformance.T, l locker.Locker, name string) error {
	t.Helper()
	before := s.requests(t)
	if _, err := locker.TryAcquire(t.Context(), l, name); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire = %v, want ErrHeld", err)
	}
	if n := s.requests(t) - before; n != 0 {
		return fmt.Errorf("%d requests were sent in addition to the waiter's, want none", n)
	}
	return nil
}

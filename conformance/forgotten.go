package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// What a Locker does when the network has forgotten its connections.
var forgottenCases = []Case{
	{ID: "F52.1", Name: "forgotten-connections-poison-no-pool", Run: forgotten,
		Needs: locker.RequireTTL, Hooks: []Hook{HookForgetful},
		Why: "a firewall or NAT forgets connections and notifies nobody; a client that tries them " +
			"one after the other, or waits for one of them, gets no lock while the service is well"},
	{ID: "F52.2", Name: "forgotten-connections-hide-no-loss", Run: forgottenLease,
		Needs: locker.RequireTTL, Hooks: []Hook{HookForgetful},
		Why: "a lease that isn't attached to a connection must be renewed on a new one in time; a " +
			"holder whose lease ends with its connection must know before another gets the lock"},
	{ID: "F52.3", Name: "forgotten-connections-strand-no-waiter", Run: forgottenWaiter,
		Needs: locker.RequireTTL, Hooks: []Hook{HookForgetful},
		Why: "a waiter that relies on a subscription or a stream that was forgotten isn't woken, and " +
			"one that gives up must leave nothing that keeps others out"},
}

// idleConnections is how many connections a Locker makes that uses one for each request, if its pool is
// that large. There must be more than the tries that a TTL has room for.
const idleConnections = 32

// warmUp has a Locker make many connections, which are idle afterwards: replies are late, so that the
// requests are under way together.
func (h *Harness) warmUp(t T, l locker.Locker, link Link) {
	t.Helper()
	base := step.LockName(t)
	link.Delay(0, 50*time.Millisecond)
	step.Contend(t, idleConnections, 1, func(ctx context.Context, i int) error {
		lease, err := l.Acquire(ctx, fmt.Sprint(base, "-", i))
		if err != nil {
			return fmt.Errorf("Acquire of a free lock = %w, want a lease", err)
		}
		if err := lease.Release(ctx); err != nil {
			return fmt.Errorf("Release = %w, want nil", err)
		}
		return nil
	})
	link.Delay(0, 0)
}

// forgotten acquires with the default TTL. With a short one the limits of a request, which follow the
// TTL, would hide that each try costs one.
func forgotten(t T, h *Harness) {
	l, link := h.OpenForgetful(t)
	other, free := h.OpenLocker(t), step.LockName(t)
	mine := step.Acquire(t, l, step.LockName(t))
	h.warmUp(t, l, link)
	link.Forget()
	began := time.Now()
	step.FreeWithin(t, h.RemovalLimit(), l, free)
	t.Logf("a free lock was acquired and released %v after the connections were forgotten", time.Since(began))
	step.WantFree(t, l, step.LockName(t)) // and not only once
	wantHeldWhile(t, other, mine)
}

// wantHeldWhile fails the case if another gets the lock of a lease that hasn't ended.
func wantHeldWhile(t T, other locker.Locker, lease locker.Lease) {
	t.Helper()
	second, err := step.Try(t, other, lease.Name())
	if err != nil {
		return
	}
	if lease.Err() == nil {
		t.Errorf("two hold the lock: token %v, and token %v whose Err is nil", second.Token(), lease.Token())
	}
	step.Release(t, second)
}

// forgottenLease has a lease that is long enough for the limits of some requests, and a Locker that only
// renews: what others ask of it would find the dead connections for the renewals. A rival waits, and gets
// the lock as soon as it is free.
func forgottenLease(t T, h *Harness) {
	l, link := h.OpenForgetful(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	h.warmUp(t, l, link)
	lease := step.Acquire(t, l, name, h.longTTL()...)
	rival := step.StartAcquire(t, other, name, h.ttl()...)
	h.WaitQueued(t, name, 1)
	link.Forget()
	before := lease.Deadline()
	step.Eventually(t, time.Until(before)+h.Slack, func() error {
		if rival.Returned(0) && lease.Err() == nil {
			t.Fatalf("two hold the lock: Acquire of another Locker has returned (%v), and Err is nil with the deadline %v away",
				rival, time.Until(lease.Deadline()))
		}
		renewed := lease.Deadline().Sub(before) > h.TTL/10
		if step.IsClosed(lease.Done()) || renewed && time.Now().After(before) {
			return nil
		}
		return fmt.Errorf("the deadline is %v away, and Done is open; Err = %w", time.Until(lease.Deadline()), lease.Err())
	})
	if !step.IsClosed(lease.Done()) {
		t.Logf("renewed on a new connection: the deadline is %v later", lease.Deadline().Sub(before))
		step.Release(t, lease)
		step.Release(t, rival.Granted(t, h.RemovalLimit()))
		return
	}
	step.LostWithin(t, 0, lease)
	if late := time.Since(lease.Deadline()); late > h.Slack {
		t.Errorf("Done was closed %v after the deadline", late)
	}
	if by := h.guarantees.Expiry.By; by >= locker.ExpirySession {
		t.Errorf("the lease is lost, and not attached to a connection: its end is %v", by)
	}
	step.Release(t, rival.Granted(t, h.RemovalLimit()))
	step.FreeWithin(t, h.RemovalLimit(), l, name)
}

// forgottenWaiter has a waiter give up whose connections were forgotten, and another one take its place.
func forgottenWaiter(t T, h *Harness) {
	l, link := h.OpenForgetful(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	h.warmUp(t, l, link)
	theirs := step.Acquire(t, other, name)
	gone := step.StartAcquire(t, l, name, h.ttl()...)
	h.WaitQueued(t, name, 1)
	link.Forget()
	gone.Cancel(nil)
	gone.Refused(t, step.Limit)
	step.FreeWithin(t, h.RemovalLimit(), l, step.LockName(t)) // the Locker has new connections
	waiter := step.StartAcquire(t, l, name, h.ttl()...)
	step.Pass(t, 2*h.Settle) // it waits; how many places there are isn't known, because the first may still have one
	waiter.WantPending(t)
	step.Release(t, theirs)
	step.Release(t, waiter.Granted(t, h.RemovalLimit()))
	step.FreeWithin(t, h.RemovalLimit(), other, name)
}

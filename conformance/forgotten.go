package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// What a Locker does when the network has forgotten its connections.
var forgottenCases = []Case{
	{ID: "F52.1", Name: "forgotten-connections-delay-no-acquisition", Run: forgotten,
		Needs: locker.RequireTTL, Hooks: []Hook{HookForgetful},
		Why: "a firewall or NAT forgets connections and notifies nobody; if a client tries its idle " +
			"connections one after the other, each of them delays the next lock, although the service works"},
	{ID: "F52.2", Name: "forgotten-connections-cost-no-lease-in-silence", Run: forgottenLease,
		Needs: locker.RequireTTL, Hooks: []Hook{HookForgetful},
		Why: "a lease that isn't attached to a connection must be renewed on a new one in time; a " +
			"holder whose lease ends with its connection must know before another gets the lock"},
	{ID: "F52.3", Name: "forgotten-connections-strand-no-waiter", Run: forgottenWaiter,
		Needs: locker.RequireTTL, Hooks: []Hook{HookForgetful},
		Why: "a waiter that relies on a subscription or a stream that was forgotten isn't woken, and " +
			"one that gives up must leave nothing that keeps others out"},
	{ID: "F52.4", Name: "forgotten-connections-keep-no-released-lock", Run: forgottenRelease,
		Needs: locker.RequireTTL, Hooks: []Hook{HookForgetful},
		Why: "a release that is lost on a dead connection must be sent on a new one, or others wait until " +
			"the TTL has passed"},
	{ID: "F52.5", Name: "forgotten-connections-make-no-renewal-untrue", Run: forgottenRenewal,
		Needs: locker.RequireTTL, Hooks: []Hook{HookForgetful},
		Why: "a holder that renews by hand before a long step must get an answer soon, and may work on if it " +
			"is nil"},
	{ID: "F52.6", Name: "forgotten-connections-keep-no-lock-of-a-closed-locker", Run: forgottenClose,
		Needs: locker.RequireTTL, Hooks: []Hook{HookForgetful},
		Why: "a process that ends must give its locks back, and it can't do that later; it must not hang either"},
}

// idleConnections is how many connections a Locker makes that uses one for each request, if its pool is
// that large. There must be more than the tries that a TTL has room for.
const idleConnections = 32

// warmUp has a Locker make n connections, which are idle afterwards. Nothing is wrong if a busy machine is too
// late for some of them: then they are made again.
func (h *Harness) warmUp(t T, l locker.Locker, link Link, n int) {
	t.Helper()
	end := time.Now().Add(h.RemovalLimit())
	together(t, link, n, func(ctx context.Context, name string) error {
		err := acquireAndRelease(ctx, l, name)
		for err != nil && time.Now().Before(end) {
			time.Sleep(h.Settle)
			err = acquireAndRelease(ctx, l, name)
		}
		return err
	})
}

// together calls f with n names at the same time. Replies are late, so that the requests are under way
// together. A Locker that uses a connection for each request has n idle ones afterwards.
func together(t T, link Link, n int, f func(ctx context.Context, name string) error) {
	t.Helper()
	link.Delay(0, 50*time.Millisecond)
	base := step.LockName(t)
	step.Contend(t, n, 1, func(ctx context.Context, i int) error { return f(ctx, fmt.Sprint(base, "-", i)) })
	link.Delay(0, 0)
}

func acquireAndRelease(ctx context.Context, l locker.Locker, name string) error {
	lease, err := l.Acquire(ctx, name)
	if err != nil {
		return fmt.Errorf("an acquisition of a free lock = %w, want a lease", err)
	}
	if err := lease.Release(ctx); err != nil {
		return fmt.Errorf("a release = %w, want nil", err)
	}
	return nil
}

// forgotten compares Lockers that had few and many connections: how long a request waits for its answer, and
// how long until a silence is noticed, is each backend's own.
func forgotten(t T, h *Harness) {
	few, many := h.afterForgotten(t, 1), h.afterForgotten(t, idleConnections)
	t.Logf("free locks were acquired %v after few connections were forgotten, and %v after many", few, many)
	if many > 2*few+h.Slack {
		t.Errorf("free locks were acquired %v after many connections were forgotten, and %v after few", many, few)
	}
}

// afterForgotten returns how long a Locker needs for free locks when n of its connections were forgotten.
// It acquires one lock, and then n at the same time, because a connection that works may hide dead ones.
// The TTL is the default: with a short TTL each try would be short as well, and a client that tries dead
// connections one by one would pass.
func (h *Harness) afterForgotten(t T, n int) time.Duration {
	t.Helper()
	l, link := h.openForgetful(t)
	other, free := h.OpenLocker(t), step.LockName(t)
	mine := step.Acquire(t, l, step.LockName(t))
	h.warmUp(t, l, link, n)
	link.Forget()
	began := time.Now()
	step.FreeWithin(t, h.RemovalLimit(), l, free)
	together(t, link, n, func(ctx context.Context, name string) error { return acquireAndRelease(ctx, l, name) })
	took := time.Since(began)
	h.wantHeldWhile(t, other, mine)
	_ = mine.Release(t.Context()) // it may have ended with its connection
	return took
}

// wantHeldWhile fails the case if another gets the lock of a lease that hasn't ended, or doesn't get it afterwards.
func (h *Harness) wantHeldWhile(t T, other locker.Locker, lease locker.Lease) {
	t.Helper()
	second, err := step.Try(t, other, lease.Name())
	switch live := lease.Err() == nil; {
	case live && err == nil:
		t.Errorf("two hold the lock: token %v, and token %v whose Err is nil", second.Token(), lease.Token())
	case live && !errors.Is(err, locker.ErrHeld):
		t.Errorf("TryAcquire of another Locker = %v, want ErrHeld: the lease has not ended", err)
	case !live && err != nil:
		second = step.AcquireWithin(t, h.RemovalLimit(), other, lease.Name())
	}
	if second != nil {
		step.Release(t, second)
	}
}

// forgottenLease has a lease that is long enough for the limits of some requests, and a Locker that only
// renews: what others ask of it would find the dead connections for the renewals. A rival waits, and gets
// the lock as soon as it is free.
func forgottenLease(t T, h *Harness) {
	l, link := h.openForgetful(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	h.warmUp(t, l, link, idleConnections)
	lease := step.Acquire(t, l, name, h.longTTL()...)
	rival := step.StartAcquire(t, other, name, h.longTTL()...)
	h.WaitQueued(t, name, 1)
	link.Forget()
	before := lease.Deadline()
	step.Eventually(t, time.Until(before)+h.Slack, func() error {
		if rival.Returned(0) && rival.Err == nil && lease.Err() == nil {
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
	h.wantConnectionBound(t)
	step.Release(t, rival.Granted(t, h.RemovalLimit()))
	step.FreeWithin(t, h.RemovalLimit(), l, name)
}

// forgottenWaiter has a waiter go on whose connections were forgotten, and which nobody notifies of its grant.
// Another one gives up, and a third takes its place.
func forgottenWaiter(t T, h *Harness) {
	l, link := h.openForgetful(t)
	other, kept, left := h.OpenLocker(t), step.LockName(t), step.LockName(t)
	h.warmUp(t, l, link, idleConnections)
	first, theirs := step.Acquire(t, other, kept), step.Acquire(t, other, left)
	stays, gone := step.StartAcquire(t, l, kept, h.ttl()...), step.StartAcquire(t, l, left, h.ttl()...)
	h.WaitQueued(t, kept, 1)
	h.WaitQueued(t, left, 1)
	link.Forget()
	step.Release(t, first)
	gone.Cancel(nil)
	gone.Refused(t, step.Limit)
	if !stays.Returned(h.RemovalLimit()) {
		t.Fatalf("the lock was released %v ago, and Acquire has not returned", h.RemovalLimit())
	}
	t.Logf("the waiter that stayed has %v", stays)
	if stays.Err == nil {
		err := step.MustReturn(t, step.Limit, "Release", func() error { return stays.Lease.Release(t.Context()) })
		if err != nil && !errors.Is(err, locker.ErrLost) && !errors.Is(err, locker.ErrUnconfirmed) {
			t.Errorf("Release = %v, want nil, or ErrLost or ErrUnconfirmed on a busy machine", err)
		}
	}
	step.FreeWithin(t, h.RemovalLimit(), other, kept)
	step.FreeWithin(t, h.RemovalLimit(), l, step.LockName(t)) // the Locker has new connections
	waiter := step.StartAcquire(t, l, left, h.longTTL()...)
	step.Pass(t, 2*h.Settle) // it waits; how many places there are isn't known, because the first may still have one
	waiter.WantPending(t)
	step.Release(t, theirs)
	step.Release(t, waiter.Granted(t, h.RemovalLimit()))
	step.FreeWithin(t, h.RemovalLimit(), other, left)
	h.WaitNoResidue(t)
}

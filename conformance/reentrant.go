package conformance

import (
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/middleware"
)

var reentrantCases = []Case{
	{ID: "O1", Name: "task-gets-in-again-without-a-request", Run: getsInAgain,
		Hooks: []Hook{HookRequests},
		Why: "a function that takes the lock its caller has must neither wait for its caller nor " +
			"get another token"},
	{ID: "O2", Name: "last-handle-frees-the-lock", Run: lastHandleFrees,
		Why: "if the inner release freed the lock, the outer function would go on without it; if " +
			"none did, nobody would get it again"},
	{ID: "O3", Name: "tasks-exclude-each-other", Run: tasksExclude,
		Why: "two tasks of one process are two holders, whatever goroutine they run on"},
	{ID: "O4", Name: "loss-ends-all-handles", Run: lossEndsHandles,
		Needs: locker.RevocationRenewal, Hooks: []Hook{HookRemove},
		Why: "each function that works under the lock must learn that it is lost, not only the " +
			"one that has acquired it"},
	{ID: "O5", Name: "task-gets-in-while-it-acquires", Run: entersWhileAcquiring,
		Why: "two goroutines of one task that ask at the same time must get one lease, and the " +
			"second must not wait for the first one's release"},
}

func getsInAgain(t T, h *Harness) {
	l, other, name := middleware.Reentrant(h.OpenLocker(t)), h.OpenLocker(t), step.LockName(t)
	task := middleware.WithTask(t.Context())
	outer, err := step.AcquireContext(t, task, l, name)
	if err != nil {
		t.Fatalf("Acquire = %v, want a lease", err)
	}
	before := h.requestsAtRest(t)
	const handles = 50
	var inner []locker.Lease
	for range handles {
		lease, err := step.AcquireContext(t, task, l, name)
		if err != nil {
			t.Fatalf("Acquire of the task = %v, want a handle", err)
		}
		if lease.Token() != outer.Token() || lease.Err() != nil {
			t.Errorf("the handle has token %v, Err = %v, want %v and nil", lease.Token(), lease.Err(), outer.Token())
		}
		inner = append(inner, lease)
	}
	for _, lease := range inner {
		step.Release(t, lease)
	}
	if n := h.requestsAtRest(t) - before; n >= handles/2 { // a service may need some now and then
		t.Errorf("%d further handles cost %d requests, want none", handles, n)
	}
	step.WantLive(t, outer, other)
	step.Release(t, outer)
}

func lastHandleFrees(t T, h *Harness) {
	l, other, name := middleware.Reentrant(h.OpenLocker(t)), h.OpenLocker(t), step.LockName(t)
	task := middleware.WithTask(t.Context())
	var handles []locker.Lease
	for range 3 {
		lease, err := step.AcquireContext(t, task, l, name)
		if err != nil {
			t.Fatalf("Acquire = %v, want a lease", err)
		}
		handles = append(handles, lease)
	}
	for i, k := range []int{1, 0, 2} { // in no order
		step.WantLive(t, handles[k], other)
		step.Release(t, handles[k])
		step.Release(t, handles[k]) // twice is once
		if err := handles[k].Err(); !errors.Is(err, locker.ErrReleased) || !step.IsClosed(handles[k].Done()) {
			t.Errorf("a handle that was released: Err = %v, Done closed: %v", err, step.IsClosed(handles[k].Done()))
		}
		if i < 2 {
			step.WantHeld(t, other, name)
		}
	}
	step.FreeWithin(t, h.Slack, other, name)
	h.WaitNoResidue(t)
}

func tasksExclude(t T, h *Harness) {
	l, name := middleware.Reentrant(h.OpenLocker(t)), step.LockName(t)
	one, two := middleware.WithTask(t.Context()), middleware.WithTask(t.Context())
	lease, err := step.AcquireContext(t, one, l, name)
	if err != nil {
		t.Fatalf("Acquire = %v, want a lease", err)
	}
	step.WantHeld(t, l, name) // without a task
	if stolen, err := step.AcquireContext(t, two, l, name, locker.NoWait()); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire of another task = %v, %v, want ErrHeld", stolen, err)
	}
	waiter := step.StartAcquireContext(t, two, l, name)
	h.WaitQueued(t, name, 1)
	waiter.WantPending(t)
	step.Release(t, lease)
	next := waiter.Granted(t, h.HandOffLimit())
	if next.Token() == lease.Token() {
		t.Errorf("two tasks have the token %v", next.Token())
	}
	step.Release(t, next)
}

func lossEndsHandles(t T, h *Harness) {
	l, other, name := middleware.Reentrant(h.OpenLocker(t)), h.OpenLocker(t), step.LockName(t)
	task := middleware.WithTask(t.Context())
	var handles []locker.Lease
	for range 3 {
		lease, err := step.AcquireContext(t, task, l, name, h.ttl()...)
		if err != nil {
			t.Fatalf("Acquire = %v, want a lease", err)
		}
		handles = append(handles, lease)
	}
	h.Remove(t, name)
	for _, lease := range handles {
		step.LostWithin(t, h.ExpiryLimit(), lease)
	}
	again, err := step.AcquireContext(t, task, l, name)
	if err != nil {
		t.Fatalf("Acquire of the task after the loss = %v, want another lease", err)
	}
	for _, lease := range handles {
		err := step.MustReturn(t, step.Limit, "Release", func() error { return lease.Release(t.Context()) })
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("Release of a handle that was lost = %v, want ErrLost", err)
		}
	}
	step.WantLive(t, again, other)
	step.Release(t, again)
	step.FreeWithin(t, h.Slack, other, name)
}

func entersWhileAcquiring(t T, h *Harness) {
	l, other, name := middleware.Reentrant(h.OpenLocker(t)), h.OpenLocker(t), step.LockName(t)
	task := middleware.WithTask(t.Context())
	held := step.Acquire(t, other, name)
	var waiters []*step.Attempt
	for range 3 {
		waiters = append(waiters, step.StartAcquireContext(t, task, l, name))
	}
	h.WaitQueued(t, name, 1) // the others wait for the first
	waiters[0].WantPending(t)
	step.Release(t, held)
	var token locker.Token
	for _, w := range waiters {
		lease := w.Granted(t, h.HandOffLimit()+time.Second)
		if token == 0 {
			token = lease.Token()
		}
		if lease.Token() != token {
			t.Errorf("handles of one task have the tokens %v and %v", token, lease.Token())
		}
	}
	for _, w := range waiters {
		step.WantHeld(t, other, name)
		step.Release(t, w.Lease)
	}
	step.FreeWithin(t, h.Slack, other, name)
}

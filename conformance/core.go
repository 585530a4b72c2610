package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var coreCases = []Case{
	{ID: "A1", Name: "free-lock-is-granted", Run: freeLock,
		Why: "a lock that nobody holds must be granted at once, with a lease that has the lock's " +
			"name, a token and no error"},
	{ID: "A2", Name: "lock-is-not-reentrant", Run: notReentrant,
		Why: "two acquisitions are two holders, also in one process: otherwise two goroutines are " +
			"in the critical section at once"},
	{ID: "A3", Name: "held-lock-is-refused", Run: heldLock,
		Why: "another caller must learn at once that the lock is held, and its question must not " +
			"change anything"},
	{ID: "A4", Name: "similar-names-are-different-locks", Run: similarNames,
		Why: "names are compared byte by byte; if a lock waits for a lock with a similar name, " +
			"the deadlock is very hard to find"},
	{ID: "A5", Name: "released-lock-is-free-at-once", Run: tenTimes,
		Why: "once Release has returned nil, nothing may prevent the next acquisition, in this " +
			"process or in another"},
	{ID: "A6", Name: "release-may-be-repeated", Run: releaseTwice,
		Why: "a Release in a defer after a Release in the code is harmless; a Release after a " +
			"loss must report that the work was not protected"},
	{ID: "A6.1", Name: "failed-release-is-not-nil", Run: releaseFails, Hooks: []Hook{HookDown},
		Why: "a caller whose Release returns nil tells others that the lock is free; if the service has " +
			"heard nothing, they wait for a TTL, and nobody knows why"},
	{ID: "A7", Name: "loser-frees-nothing-of-the-winners", Run: losersCleanUp,
		Why: "a caller that doesn't get the lock cleans up after itself; if that touches the " +
			"holder's lock, a third caller gets it too"},
	{ID: "A8", Name: "locks-of-one-client-are-separate", Run: secondLock,
		Why: "a program holds many locks through one Locker; what it does with one lock must not " +
			"touch another lock"},
	{ID: "A9", Name: "held-and-given-up-are-told-apart", Run: heldOrGaveUp,
		Why: "a caller does different things when the lock is held and when it gave up itself, " +
			"and errors.Is must tell the two apart"},
	{ID: "A9.1", Name: "failed-service-is-not-held", Run: serviceFailed, Hooks: []Hook{HookDown},
		Why: "a service that is down must not look like a lock that is held: a job that is " +
			"skipped because another process seems to do it would never run"},
	{ID: "A10", Name: "close-releases-leases", Run: closeReleases,
		Why: "a process that ends in good order frees its locks at once; otherwise others wait " +
			"for a TTL"},
	{ID: "A10.1", Name: "close-wakes-waiters", Run: closeWakes,
		Why: "a process must be able to end while it waits, and its place in the queue must be " +
			"removed"},
}

func freeLock(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	before := time.Now()
	lease := step.Acquire(t, l, name)
	if took := time.Since(before); took > h.Slack {
		t.Errorf("Acquire of a free lock took %v", took)
	}
	if lease.Name() != name {
		t.Errorf("Name = %q, want %q", lease.Name(), name)
	}
	if lease.Token() <= 0 {
		t.Errorf("Token = %v, want a positive one", lease.Token())
	}
	if err := lease.Err(); err != nil {
		t.Errorf("Err = %v, want nil: the lease is held", err)
	}
	deadline := lease.Deadline()
	if h.guarantees.Expiry.TTL && !deadline.After(time.Now()) {
		t.Errorf("Deadline = %v, want one in the future", deadline)
	}
	if !h.guarantees.Expiry.TTL && !deadline.IsZero() {
		t.Errorf("Deadline = %v, want zero: leases don't end by time here", deadline)
	}
	step.Release(t, lease)
}

func notReentrant(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	first := step.Acquire(t, l, name)
	step.WantHeld(t, l, name)
	second := step.StartAcquire(t, l, name)
	h.WaitQueued(t, name, 1)
	second.WantPending(t)
	step.WantHeld(t, l, name)
	step.Release(t, first)
	lease := second.Granted(t, step.Limit)
	step.Release(t, lease)
}

func heldLock(t T, h *Harness) {
	l, other, third, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	step.WantHeld(t, other, name) // and connects
	before := time.Now()
	step.WantHeld(t, other, name)
	if took := time.Since(before); took > h.Slack {
		t.Errorf("TryAcquire of a held lock took %v", took)
	}
	step.WantLive(t, lease, third)
	step.Release(t, lease)
	step.WantFree(t, third, name)
	step.WantFree(t, other, name)
	h.WaitNoResidue(t)
}

func similarNames(t T, h *Harness) {
	l, other, base := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	long := base + fmt.Sprintf("%0*d", locker.MaxName-len(base)-1, 0)
	for _, pair := range [][2]string{
		{"a", "a/b"}, {"a", "A"}, {"x", "x{y}"}, {"{x}y", "{x}z"}, {"a", "a "}, {"a:b", "a/b"}, {"a*", "ab"},
	} {
		separate(t, l, other, base+pair[0], base+pair[1])
		separate(t, l, other, base+pair[1], base+pair[0])
	}
	separate(t, l, other, long+"1", long+"2")
}

// separate fails the case unless the lock called free can be acquired while the other one is held.
func separate(t T, l, other locker.Locker, held, free string) {
	t.Helper()
	lease := step.Acquire(t, l, held)
	if next, err := step.Try(t, other, free); err != nil {
		t.Errorf("while %q is held, TryAcquire(%q) = %v, want a lease", held, free, err)
	} else {
		step.Release(t, next)
	}
	step.WantLive(t, lease, other)
	step.Release(t, lease)
}

func tenTimes(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	for range 10 {
		step.WantFree(t, l, name)
	}
	for range 10 {
		step.WantFree(t, other, name)
		step.WantFree(t, l, name)
	}
}

func releaseTwice(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	step.Release(t, lease)
	step.Release(t, lease)
	next := step.Acquire(t, other, name)
	step.Release(t, lease)
	step.WantLive(t, next, l)
	step.Release(t, next)

	lease = step.Acquire(t, l, name, locker.WithMaxHold(h.short()))
	step.LostWithin(t, h.short()+h.Slack, lease)
	for range 2 {
		err := step.MustReturn(t, step.Limit, "Release", func() error { return lease.Release(t.Context()) })
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("Release of a lost lease = %v, want ErrLost", err)
		}
	}
}

// releaseFails lets a service that keeps the lock until the end of its connection notice that end.
func releaseFails(t T, h *Harness) {
	l, other, name, free := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	up := h.TakeDown(t)
	err := step.MustReturn(t, step.Limit, "Release", func() error { return lease.Release(t.Context()) })
	up()
	step.FreeWithin(t, h.RemovalLimit(), other, free) // and connects again
	limit := h.RemovalLimit()
	if err == nil {
		limit = h.Slack
	}
	t.Logf("Release on a service that is down = %v", err)
	step.FreeWithin(t, limit, other, name)
}

func losersCleanUp(t T, h *Harness) {
	l, loser, third, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	for range 5 {
		step.WantHeld(t, loser, name)
		a := step.StartAcquire(t, loser, name)
		h.WaitQueued(t, name, 1)
		a.Cancel(nil)
		a.Refused(t, step.Limit, context.Canceled)
		h.WaitQueued(t, name, 0)
		step.WantLive(t, lease, third)
	}
	step.Release(t, lease)
	step.WantFree(t, third, name)
}

func secondLock(t T, h *Harness) {
	l, other := h.OpenLocker(t), h.OpenLocker(t)
	one, two := step.LockName(t), step.LockName(t)
	first := step.Acquire(t, l, one)
	second := step.Acquire(t, l, two)
	step.WantLive(t, first, other)
	step.WantLive(t, second, other)
	if err := step.Renew(t, second); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	step.WantLive(t, first, other)
	step.Release(t, second)
	step.WantLive(t, first, other)
	step.WantFree(t, other, two)

	second = step.Acquire(t, l, two, locker.WithMaxHold(h.short()))
	step.LostWithin(t, h.short()+h.Slack, second)
	step.FreeWithin(t, h.RemovalLimit(), other, two)
	step.WantLive(t, first, other)
	step.Release(t, first)
}

func heldOrGaveUp(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	_, err := step.Try(t, other, name)
	if !errors.Is(err, locker.ErrHeld) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("TryAcquire of a held lock = %v, want ErrHeld alone", err)
	}
	var e *locker.Error
	if !errors.As(err, &e) || e.Op != "acquire" || e.Name != name {
		t.Errorf("TryAcquire = %#v, want a *locker.Error with Op acquire and the lock's name", err)
	}
	a := step.StartAcquire(t, other, name)
	h.WaitQueued(t, name, 1)
	a.Cancel(nil)
	if err := a.Refused(t, step.Limit, context.Canceled); errors.Is(err, locker.ErrHeld) {
		t.Errorf("cancelled Acquire = %v, want no ErrHeld: no time limit has passed", err)
	}
	step.Release(t, lease)
}

func serviceFailed(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, l, name) // and connects
	up := h.TakeDown(t)
	for _, opts := range [][]locker.Option{{locker.NoWait()}, nil} {
		ctx, cancel := context.WithTimeout(t.Context(), step.Limit/2)
		_, err := step.AcquireContext(t, ctx, l, name, opts...)
		cancel()
		if err == nil || errors.Is(err, locker.ErrHeld) {
			t.Errorf("Acquire on a service that is down = %v, want an error that is not ErrHeld", err)
		}
		if err != nil && errors.Is(err, context.DeadlineExceeded) {
			t.Logf("it took until the end of its context: %v", err)
		}
	}
	up()
	step.FreeWithin(t, h.RemovalLimit(), l, name)
}

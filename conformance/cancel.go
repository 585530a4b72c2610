package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Cases B13 to B19: what the end of a context does to a wait, and what it must not do to a lease.

func timedOut(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	limit := 2 * h.short()
	before := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	a := step.StartAcquireContext(t, ctx, other, name)
	a.Refused(t, limit+h.Slack, locker.ErrHeld, context.DeadlineExceeded)
	if took := time.Since(before); took < limit {
		t.Errorf("a wait of %v was over after %v", limit, took)
	}
	h.WaitQueued(t, name, 0)
	step.WantLive(t, lease, other)
	step.Release(t, lease)
	step.WantFree(t, other, name)
}

func cancelled(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	a := step.StartAcquire(t, other, name)
	h.WaitQueued(t, name, 1)
	shutdown := errors.New("shutting down")
	a.Cancel(shutdown)
	a.Refused(t, h.Slack, context.Canceled, shutdown)
	step.Release(t, lease)
	step.FreeWithin(t, h.RemovalLimit(), other, name)
}

func overBefore(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, l, name)
	gone := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	before := h.requestsAtRest(t)
	for _, opts := range [][]locker.Option{{locker.NoWait()}, nil} {
		if _, err := step.AcquireContext(t, ctx, l, name, opts...); !errors.Is(err, context.Canceled) || !errors.Is(err, gone) {
			t.Errorf("Acquire with a context that is over = %v, want its error and its cause", err)
		}
	}
	if n := h.requests(t) - before; n != 0 {
		t.Errorf("the service has got %d requests, want none", n)
	}
	step.WantFree(t, other, name)
	h.WaitNoResidue(t)
}

func waiterLeaves(t T, h *Harness) {
	l, first, second, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	leaver := step.StartAcquire(t, first, name)
	h.WaitQueued(t, name, 1)
	next := step.StartAcquire(t, second, name)
	h.WaitQueued(t, name, 2)
	leaver.Cancel(nil)
	leaver.Refused(t, h.Slack, context.Canceled)
	h.WaitQueued(t, name, 1)
	step.Release(t, lease)
	step.Release(t, next.Granted(t, h.HandOffLimit()))
	step.WantFree(t, first, name)
	h.WaitNoResidue(t)
}

func cancelRace(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	won := 0
	for i := range h.rounds(1000) {
		began := time.Now()
		lease := step.Acquire(t, l, name)
		if took := time.Since(began); took > h.HandOffLimit() {
			t.Fatalf("in round %d Acquire took %v: an acquisition that was cancelled has kept the lock", i, took)
		}
		waiter := step.StartAcquire(t, other, name)
		if i%2 == 0 && h.Waiters != nil {
			h.WaitQueued(t, name, 1)
		}
		step.Race(t, func() error {
			yield(50 - i%100) // the moment of the cancellation moves over the moment of the grant
			return lease.Release(t.Context())
		}, func() error {
			yield(i%100 - 50)
			waiter.Cancel(nil)
			return nil
		})
		if !waiter.Returned(step.Limit) {
			t.Fatalf("Acquire has not returned %v after its cancellation", step.Limit)
		}
		if waiter.Err == nil {
			won++
			step.Release(t, waiter.Lease)
		} else {
			waiter.Refused(t, 0, context.Canceled)
		}
	}
	t.Logf("the grant was faster %d times", won)
	step.FreeWithin(t, h.Slack, l, name)
	h.WaitNoResidue(t)
}

func contextEnds(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := step.AcquireContext(t, ctx, l, name, h.ttl()...)
	cancel()
	if err != nil {
		t.Fatalf("Acquire = %v, want a lease", err)
	}
	step.Pass(t, 4*h.short()) // the lease must be renewed though Acquire's context is over
	step.WantLive(t, lease, other)
	step.Release(t, lease)
}

func releaseCancelled(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := step.MustReturn(t, step.Limit, "Release", func() error { return lease.Release(ctx) }); err != nil {
		t.Errorf("Release with a cancelled context = %v, want nil", err)
	}
	step.WantFree(t, other, name)
}

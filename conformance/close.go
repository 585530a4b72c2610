package conformance

import (
	"context"
	"errors"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Cases A10 and A10.1: what Close does to leases and to waiters.

func closeReleases(t T, h *Harness) {
	l, other, one, two := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t), step.LockName(t)
	leases := []locker.Lease{step.Acquire(t, l, one), step.Acquire(t, l, two)}
	step.Close(t, l)
	step.Close(t, l)
	for _, lease := range leases {
		err := step.EndedWithin(t, h.Slack, lease)
		if !errors.Is(err, locker.ErrReleased) || !errors.Is(err, locker.ErrClosed) || errors.Is(err, locker.ErrLost) {
			t.Errorf("after Close, Err = %v, want ErrReleased and ErrClosed", err)
		}
		step.WantFree(t, other, lease.Name())
	}
	for _, opts := range [][]locker.Option{{locker.NoWait()}, nil} {
		ctx, cancel := context.WithTimeout(t.Context(), step.Limit/2)
		if _, err := step.AcquireContext(t, ctx, l, one, opts...); !errors.Is(err, locker.ErrClosed) {
			t.Errorf("Acquire after Close = %v, want ErrClosed", err)
		}
		cancel()
	}
	h.WaitNoResidue(t)
}

func closeWakes(t T, h *Harness) {
	holder, l, third, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, holder, name)
	head, next := step.StartAcquire(t, l, name), step.StartAcquire(t, l, name)
	h.WaitQueued(t, name, 1)
	step.Close(t, l)
	head.Refused(t, h.Slack, locker.ErrClosed)
	next.Refused(t, h.Slack, locker.ErrClosed)
	step.Release(t, lease)
	step.WantFree(t, third, name)
	h.WaitNoResidue(t)
}

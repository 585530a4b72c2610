package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// How calls for several locks end without them, and what is left then.

// severalGivenUp ends the wait for the lock in the middle by a timeout and by a cancel.
func severalGivenUp(t T, h *Harness) {
	l, other, names := h.OpenLocker(t), h.OpenLocker(t), several(t, 3)
	held := step.Acquire(t, other, names[1])
	for _, cancels := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), h.short()+h.Settle)
		if cancels {
			ctx, cancel = context.WithCancel(t.Context())
		}
		ended := make(chan error, 1)
		go func() {
			_, err := locker.AcquireAll(ctx, l, locker.Wants(names...))
			ended <- err
		}()
		if cancels {
			waitHeld(t, other, names[0])
			step.Pass(t, h.short())
			cancel()
		}
		err := step.MustReturn(t, step.Limit, "AcquireAll", func() error { return <-ended })
		wantLockOf(t, "AcquireAll", err, names[1], ctx.Err())
		cancel()
		step.FreeWithin(t, h.RemovalLimit(), other, names[0])
		step.FreeWithin(t, h.RemovalLimit(), other, names[2])
	}
	step.Release(t, held)
	step.FreeWithin(t, h.RemovalLimit(), other, names[1])
	h.WaitNoResidue(t)
}

// waitHeld waits until a call for several locks has one of them, while it waits for another.
func waitHeld(t T, other locker.Locker, name string) {
	t.Helper()
	step.Eventually(t, step.Limit, func() error {
		lease, err := step.Try(t, other, name)
		if err == nil {
			step.Release(t, lease)
			return fmt.Errorf("lock %q is free while a call for several locks waits for another", name)
		}
		return nil
	})
}

func severalFailed(t T, h *Harness) {
	l, other, names := h.OpenLocker(t), h.OpenLocker(t), several(t, 3)
	releaseAll(t, acquireAll(t, l, names)) // and connects
	up := h.TakeDown(t)
	ctx, cancel := context.WithTimeout(t.Context(), h.Slack)
	_, err := locker.AcquireAll(ctx, l, locker.Wants(names...))
	cancel()
	if err == nil || errors.Is(err, locker.ErrHeld) {
		t.Errorf("AcquireAll without a service = %v, want its failure", err)
	}
	up()
	for _, name := range names {
		step.FreeWithin(t, h.RemovalLimit(), other, name)
	}
	h.WaitNoResidue(t)
}

func lostOnTheWay(t T, h *Harness) {
	l, other, names := h.OpenLocker(t), h.OpenLocker(t), several(t, 2)
	second := step.Acquire(t, other, names[1])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan *locker.LeaseSet, 1)
	go func() {
		leases, _ := locker.AcquireAll(ctx, l, locker.Wants(names...), h.ttl()...)
		got <- leases
	}()
	waitHeld(t, other, names[0])
	h.WaitQueued(t, names[1], 1)
	var next *step.Attempt // AcquireAll, which asks for the lock again, must not be before it
	if h.guarantees.Order >= locker.OrderQueue {
		next = step.StartAcquire(t, other, names[0])
		h.WaitQueued(t, names[0], 1)
	}
	h.Remove(t, names[0])
	if next == nil { // a waiter that polls may come too late: ask at once
		next = step.StartAcquire(t, other, names[0])
	}
	first := next.Granted(t, h.RemovalLimit())
	step.Pass(t, h.TTL) // it must have noticed
	step.Release(t, second)
	step.FreeWithin(t, h.RemovalLimit(), other, names[1]) // without the first lock it must not get the second
	step.Release(t, first)
	var leases *locker.LeaseSet
	err := step.MustReturn(t, step.Limit, "AcquireAll", func() error {
		if leases = <-got; leases == nil {
			return errors.New("no leases")
		}
		return leases.Err()
	})
	if err != nil {
		t.Fatalf("AcquireAll after a loss on the way = %v, want leases", err)
	}
	for _, name := range names {
		step.WantLive(t, leases.Lease(name), other)
	}
	releaseAll(t, leases)
}

func oneOfSeveralLost(t T, h *Harness) {
	l, other, names := h.OpenLocker(t), h.OpenLocker(t), several(t, 3)
	err := locker.DoAll(t.Context(), l, locker.Wants(names...), func(ctx context.Context, leases *locker.LeaseSet) error {
		h.Remove(t, names[1])
		if !step.WaitClosed(leases.Done(), h.ExpiryLimit()) {
			t.Errorf("Done isn't closed after the loss of one lock")
		}
		if !step.WaitClosed(ctx.Done(), h.Slack) {
			t.Errorf("the context of DoAll hasn't ended after the loss of one lock")
		}
		if h.guarantees.Expiry.By != locker.ExpiryKey { // the others may have been attached to what was ended
			return leases.Err()
		}
		wantLockOf(t, "Err", leases.Err(), names[1], locker.ErrLost)
		if err := leases.Lease(names[0]).Err(); err != nil {
			t.Errorf("Err of another lock = %v, want nil until its release", err)
		}
		return nil
	}, h.ttl()...)
	if !errors.Is(err, locker.ErrLost) {
		t.Errorf("DoAll = %v, want ErrLost", err)
	}
	if h.guarantees.Expiry.By == locker.ExpiryKey {
		wantLockOf(t, "DoAll", err, names[1], locker.ErrLost)
	}
	for _, name := range names {
		step.FreeWithin(t, h.RemovalLimit(), other, name)
	}
	h.WaitNoResidue(t)
}

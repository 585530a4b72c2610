package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Cases C26 and C28 to C30: what a renewal does, and what it must never bring back.

func renewalKeeps(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name, h.ttl()...)
	first := lease.Deadline()
	for range 20 {
		step.Pass(t, h.TTL/2) // ten TTLs in all
		step.WantLive(t, lease, other)
	}
	if gained := lease.Deadline().Sub(first); gained < 9*h.TTL {
		t.Errorf("the deadline has moved by %v in ten TTLs of %v", gained, h.TTL)
	}
	step.Release(t, lease)
	step.WantFree(t, other, name)
}

func renewalFailsOnce(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	ttl := 2 * h.TTL // so that the second renewal has time on a busy machine, too
	lease := step.Acquire(t, l, name, locker.WithTTL(ttl))
	link.Cut()
	step.Pass(t, ttl/2) // the first renewal must be lost
	link.Heal()
	for range 8 {
		step.Pass(t, ttl/4) // two TTLs in all, in which the lease must be renewed
		step.WantLive(t, lease, other)
	}
	step.Release(t, lease)
	step.WantFree(t, other, name)
}

func renewRace(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	for i := range h.rounds(200) {
		lease := step.Acquire(t, l, name)
		step.Race(t, func() error {
			_ = lease.Renew(t.Context())
			return nil
		}, func() error { return lease.Release(t.Context()) })
		if next, err := step.Try(t, other, name); err != nil {
			t.Fatalf("in round %d, after Release raced with Renew, TryAcquire = %v, want a lease", i, err)
		} else {
			step.Release(t, next)
		}
	}
	step.Pass(t, h.TTL) // a late renewal must have arrived
	step.WantFree(t, other, name)
	h.WaitNoResidue(t)
}

func noRenewalAfter(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	for range 3 {
		lease := step.Acquire(t, l, name, h.ttl()...)
		step.Pass(t, h.TTL/2) // renewal must have begun
		step.Release(t, lease)
	}
	before := h.requestsAtRest(t)
	step.Pass(t, 3*h.TTL) // renewals would have come
	if n := h.requests(t) - before; n != 0 {
		t.Errorf("the service has got %d requests in three TTLs after the last Release, want none", n)
	}
}

func lateRenewal(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	link.Delay(h.TTL, 0)
	ctx, cancel := context.WithTimeout(t.Context(), h.TTL/2)
	err := step.MustReturn(t, step.Limit, "Renew", func() error { return lease.Renew(ctx) })
	cancel()
	if err == nil {
		t.Errorf("Renew = nil before the service had got the request")
	}
	link.Heal() // from here on the release overtakes the renewal
	step.Release(t, lease)
	step.WantFree(t, other, name)
	step.Pass(t, h.TTL) // the renewal must have arrived
	step.WantFree(t, other, name)
	h.WaitNoResidue(t)
}

func renewExtends(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
	first := lease.Deadline()
	step.Pass(t, h.TTL/2) // there must be something to extend
	if err := step.Renew(t, lease); err != nil {
		t.Fatalf("Renew = %v, want nil", err)
	}
	if gained := lease.Deadline().Sub(first); gained < h.TTL/4 {
		t.Errorf("Renew at half of the TTL %v has moved the deadline by %v", h.TTL, gained)
	}
	step.Pass(t, time.Until(first)+h.TTL/10) // the first deadline must be over
	step.WantLive(t, lease, other)
	step.Release(t, lease)
	if err := step.Renew(t, lease); !errors.Is(err, locker.ErrReleased) {
		t.Errorf("Renew of a released lease = %v, want ErrReleased", err)
	}
	step.WantFree(t, other, name)

	lease = step.Acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
	step.LostWithin(t, h.ExpiryLimit(), lease)
	if err := step.Renew(t, lease); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Renew of a lost lease = %v, want ErrLost", err)
	}
	step.FreeWithin(t, h.RemovalLimit(), other, name)
}

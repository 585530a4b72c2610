package step_test

import (
	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
)

// A case of a backend's own pack: what only this service does to its clients. Harness.Pack has it.
func Example() {
	_ = conformance.Case{
		ID: "I1", Name: "stale-release-frees-nothing",
		Why: "a holder that is late must not free the lock of its successor",
		Run: func(t conformance.T, h *conformance.Harness) {
			l, other, third, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
			stale := step.Acquire(t, l, name, locker.WithTTL(h.TTL), locker.WithoutRenewal())
			waiter := step.StartAcquire(t, other, name)
			step.LostWithin(t, h.ExpiryLimit(), stale)
			successor := waiter.Granted(t, h.ExpiryLimit())
			_ = stale.Release(t.Context()) // ErrLost: it was lost before
			step.WantLive(t, successor, third)
		},
	}
}

package conformance

import (
	"errors"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// leasesAtOnce is more than a request, a page or a pool of a service usually holds. All have one
// TTL, so they are renewed together.
const leasesAtOnce = 300

func manyLeases(t T, h *Harness) {
	l, other, base := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	var leases []locker.Lease
	for i := range leasesAtOnce {
		leases = append(leases, step.Acquire(t, l, member(base, i), h.ttl()...))
	}
	step.Pass(t, 3*h.TTL) // a lease that isn't renewed is over by then
	for _, lease := range leases {
		if err := lease.Err(); err != nil {
			t.Errorf("one of %d leases: Err = %v, want nil: it is renewed", leasesAtOnce, err)
		}
		if stolen, err := step.Try(t, other, lease.Name()); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire of one of %d locks that are held = %v, %v, want ErrHeld", leasesAtOnce, stolen, err)
		}
		if t.Failed() {
			break // one is enough
		}
	}
	for _, lease := range leases {
		_ = lease.Release(t.Context())
	}
	h.WaitNoResidue(t)
}

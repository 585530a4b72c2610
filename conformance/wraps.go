package conformance

import (
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// wraps are TTLs that are nothing in a number of 16, 31 or 32 bits: of milliseconds, microseconds or
// seconds.
var wraps = []time.Duration{
	1 << 31 * time.Millisecond, 1 << 32 * time.Millisecond, 1 << 31 * time.Microsecond, 1 << 32 * time.Microsecond, 1 << 16 * time.Second,
}

// ttlsThatWrap asks for TTLs of which the suite's TTL is left where the number is cut. Each lease has
// a Locker of its own, because a session may have the TTL of its first lease. A TTL that the service
// can't keep may be refused.
func ttlsThatWrap(t T, h *Harness) {
	other := h.OpenLocker(t)
	var leases []locker.Lease
	for _, wrap := range wraps {
		asked := wrap + h.TTL
		lease, err := step.Try(t, h.OpenLocker(t), step.LockName(t), locker.WithTTL(asked), locker.WithoutRenewal())
		switch {
		case errors.Is(err, locker.ErrOption):
			t.Logf("a TTL of %v: %v", asked, err)
			continue
		case err != nil:
			t.Fatalf("TryAcquire with a TTL of %v = %v, want a lease or ErrOption", asked, err)
		}
		if left := time.Until(lease.Deadline()); left < wrap-wrap/10 {
			t.Errorf("with a TTL of %v the deadline is %v away", asked, left)
		}
		leases = append(leases, lease)
	}
	step.Pass(t, 2*h.TTL+h.guarantees.Expiry.Slack) // what is left of a number that is cut must be over
	for _, lease := range leases {
		step.WantLive(t, lease, other)
		step.Release(t, lease)
	}
}

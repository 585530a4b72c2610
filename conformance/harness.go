package conformance

import (
	"testing"
	"time"

	"github.com/fencedlock/locker"
)

// Harness is what the suite needs to know of a backend. Open is enough for one without TTL, Open and TTL for the
// others.
type Harness struct {
	// Open returns a new Locker with connections of its own, as another process would have. The suite closes it. Leases
	// that don't ask for a TTL should get one of 10 s or more, where there is one.
	Open func(t T) locker.Locker

	// TTL is the one that the suite asks for where a case is about time: the shorter, the faster the run, and the more a
	// busy machine disturbs it. Half a second suits most local services; some have a minimum. Zero: leases never end by
	// time.
	TTL time.Duration

	// Slack is how late a busy machine may be with anything. Zero: 5 s.
	Slack time.Duration

	// Settle is how long the suite gives a waiter to get into the service's queue, where the hook Waiters doesn't tell. A
	// slower one makes some cases weaker, and may fail those about order. Zero: 100 ms.
	Settle time.Duration

	// Scale multiplies the rounds of the cases that need many. Zero: 1.
	Scale float64

	// Setup runs before each case, with a copy of the harness which is that case's own: it may start a service for
	// that case alone and set the other fields.
	Setup func(t T, h *Harness)

	// Wrap runs each case; synctest.Test of the standard library makes time fly for a backend that needs no network.
	Wrap func(t *testing.T, run func(t *testing.T))

	// Strict refuses what a backend's author may not have got to yet: a missing hook without a reason in Absent, and a
	// guarantee that is seen but not claimed, fail.
	Strict bool

	// Pack is the backend's own cases, which run after the suite's.
	Pack []Case

	Hooks

	guarantees locker.Guarantees
}

// prepare returns the harness of one case, with defaults instead of zeros.
func (h Harness) prepare(t T, g locker.Guarantees) *Harness {
	if h.Setup != nil {
		h.Setup(t, &h)
	}
	if h.Slack == 0 {
		h.Slack = 5 * time.Second
	}
	if h.Settle == 0 {
		h.Settle = 100 * time.Millisecond
	}
	h.guarantees = g
	return &h
}

// manifest reads the guarantees of the backend.
func (h Harness) manifest(t T) locker.Guarantees {
	own := h.prepare(t, locker.Guarantees{})
	g := own.OpenLocker(t).Guarantees()
	if g.Expiry.TTL != (own.TTL > 0) {
		t.Fatalf("Harness.TTL is %v, and what ends a lease on %s is: %v", own.TTL, g.Backend, g.Expiry)
	}
	return g
}

func (h Harness) wrap(t *testing.T, run func(t *testing.T)) {
	if h.Wrap == nil {
		run(t)
		return
	}
	h.Wrap(t, run)
}

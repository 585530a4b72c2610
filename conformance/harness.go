package conformance

import (
	"testing"
	"time"

	"github.com/fencedlock/locker"
)

// Harness is what the suite needs to know of a backend. Open is enough for a backend without TTL.
// The others need Open and TTL.
type Harness struct {
	// Open returns a new Locker with its own connections, as another process would have. The suite
	// closes it. Where leases have a TTL, the default TTL should be 10 s or more.
	Open func(t T) locker.Locker

	// TTL is what the suite asks for where a case is about time. The shorter it is, the faster is
	// the run, and the more a busy machine disturbs it. 500 ms suit most local services; some have
	// a minimum. A driver gives up a request after a part of the TTL, a sixth in the examples: 83 ms
	// of 500 ms. Where answers take longer now and then, raise the TTL; Slack and Scale don't change
	// that. Zero: leases never end by time.
	TTL time.Duration

	// Slack is how late a busy machine may be with anything. It bounds what the cases wait for, not
	// what the backend does. Zero: 5 s.
	Slack time.Duration

	// Settle is how long the suite waits until a waiter is in the service's queue, where there is
	// no hook Waiters. A waiter that takes longer makes some cases weaker, and may fail the cases
	// about order. Zero: 100 ms.
	Settle time.Duration

	// Recovery is how long the service may grant nothing after Up, Restart, Wipe or Failover has
	// returned.
	// Zero: it grants at once. Only Explore uses it.
	Recovery time.Duration

	// Scale multiplies the rounds of the cases that need many. Zero: 1.
	Scale float64

	// Setup runs before each case, with the case's own copy of the harness. It may start a service
	// for that case alone and set the other fields.
	Setup func(t T, h *Harness)

	// Wrap runs each case. With synctest.Test of the standard library a backend that needs no
	// network waits for nothing.
	Wrap func(t *testing.T, run func(t *testing.T))

	// Observe attaches an observer to each Locker that Open, Linked and Forgetful return. It checks that
	// the events of each call of Acquire follow each other as package locker promises, and that the
	// counts of [locker.StatsOf] are the events'.
	Observe bool

	// Strict makes two things failures: a missing hook without a reason in Absent, and a guarantee
	// that is seen but not claimed. Set it when the harness is complete.
	Strict bool

	// Pack has the backend's own cases, which run after the suite's: what only this service does to
	// its clients.
	Pack []Case

	Hooks

	guarantees locker.Guarantees
}

// prepare returns the harness of one case, with defaults instead of zeros.
func (h Harness) prepare(t T, g locker.Guarantees) *Harness {
	if h.Setup != nil {
		h.Setup(t, &h)
	}
	if h.Observe {
		h.observe()
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

// observe has the Lockers of the harness observed.
func (h *Harness) observe() {
	h.Open = observed(h.Open)
	h.Linked = observedLink(h.Linked)
	h.Forgetful = observedLink(h.Forgetful)
}

// observedLink has the Lockers of a hook observed; nil: there is no such hook.
func observedLink[L Link](linked func(T) (locker.Locker, L)) func(T) (locker.Locker, L) {
	if linked == nil {
		return nil
	}
	return func(t T) (locker.Locker, L) {
		t.Helper()
		var link L
		l := observed(func(t T) (l locker.Locker) {
			l, link = linked(t)
			return l
		})(t)
		return l, link
	}
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

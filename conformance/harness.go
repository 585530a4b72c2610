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

// prepare makes the harness of one case.
func (h Harness) prepare(t T, g locker.Guarantees) *Harness {
	if h.Setup != nil {
		h.Setup(t, &h)
	}
	h.guarantees = g
	return &h
}

// manifest reads the guarantees of the backend.
func (h Harness) manifest(t T) locker.Guarantees {
	own := h.prepare(t, locker.Guarantees{})
	g := own.open(t).Guarantees()
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

// slack is how late something may be that should happen at once.
func (h *Harness) slack() time.Duration {
	if h.Slack == 0 {
		return 5 * time.Second
	}
	return h.Slack
}

// rounds scales a number of repetitions.
func (h *Harness) rounds(n int) int {
	if h.Scale == 0 {
		return n
	}
	return max(int(float64(n)*h.Scale), 10)
}

// ttl is opts for a lease with the suite's short TTL, or for one without a TTL where the backend has none.
func (h *Harness) ttl(opts ...locker.Option) []locker.Option {
	if h.TTL > 0 {
		opts = append(opts, locker.WithTTL(h.TTL))
	}
	return opts
}

// settle is how long what nobody tells of may take to happen.
func (h *Harness) settle() time.Duration {
	if h.Settle > 0 {
		return h.Settle
	}
	return 100 * time.Millisecond
}

// short is a time for a wait that is going to fail.
func (h *Harness) short() time.Duration {
	if h.TTL > 0 {
		return h.TTL / 2
	}
	return 100 * time.Millisecond
}

// handOff is how long it may take from a release until a waiter has the lock.
func (h *Harness) handOff() time.Duration {
	if h.guarantees.Waiting >= locker.WaitingNotify {
		return h.slack()
	}
	return h.slack() + time.Second // polite pauses
}

// expiry is when a lease of a dead or silent holder must be over at the latest, counted from its last sign of life.
func (h *Harness) expiry() time.Duration {
	if h.guarantees.Expiry.TTL {
		return h.TTL + h.guarantees.Expiry.Slack + h.slack()
	}
	return h.guarantees.Expiry.Slack + h.slack()
}

// death is when a lease or a place of a holder that was killed must be over at the latest.
func (h *Harness) death() time.Duration {
	switch h.guarantees.Expiry.By {
	case locker.ExpiryProcess, locker.ExpiryConnection:
		return h.handOff() // at once
	}
	return h.expiry()
}

// removal is when what a failed acquisition or a lost lease may have left must be gone at the latest, counted from when
// the service can be reached again: one call that hangs until its time limit, and the longest pause before the next.
func (h *Harness) removal() time.Duration { return h.expiry() + 15*time.Second }

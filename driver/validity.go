package driver

import (
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
)

// validity says how long a lease may be trusted. Its methods are pure functions.
type validity struct {
	base  Instant       // as in a Grant; it grows with each renewal
	ttl   time.Duration // in force, before the grant the one asked for; 0: it never ends by time
	limit Instant       // when the longest hold is over; Never: there is no longest hold
}

// newValidity is the validity of a grant that arrived at now. No base lies in the future, whatever
// a driver says.
func newValidity(g Grant, now Instant) validity {
	return validity{base: min(g.Base, now), ttl: g.TTL, limit: Never}
}

// renewed is the validity after a renewal that was answered by now. A base never goes back.
func (v validity) renewed(base, now Instant) validity {
	v.base = max(v.base, min(base, now))
	return v
}

// deadline is the moment at which the lease is lost.
func (v validity) deadline() Instant { return min(v.expiry(), v.limit) }

// expiry is the first moment at which the service could grant the lock to somebody else, as seen
// from here: the allowance for clocks of different speed, 1 % of the TTL and 2 ms, is taken off. A
// daemon that corrects a clock may change its speed by more: see docs/guarantees.md.
func (v validity) expiry() Instant {
	if v.ttl == 0 {
		return Never
	}
	return v.base.Add(v.ttl - v.ttl/100 - 2*time.Millisecond)
}

// isStale reports whether a grant must be confirmed by a renewal before it is handed out. Without
// renewal the TTL is all that the holder gets, so it must not begin half used up. With a minimum
// hold that must be left: the process may die at once.
func (v validity) isStale(now Instant, req *locker.Request) bool {
	limit := v.ttl / 2
	if req.NoRenewal {
		limit = v.ttl / 20
	}
	if req.MinHold > 0 {
		limit = min(limit, v.expiry().Sub(v.base)-req.MinHold)
	}
	return v.ttl > 0 && now.Sub(v.base) > limit
}

// minHoldTTL is the shortest TTL of a lease with a minimum hold of d: enough for d, the allowance
// for clocks and an answer of the service that takes a twelfth of d.
func minHoldTTL(d time.Duration) time.Duration { return d + d/10 + 10*time.Millisecond }

// nextRenewal is when to renew what was renewed last at base: a third of the TTL later, rounded
// down to a multiple of a tenth of the TTL. So leases with one TTL fall due together and go in one
// batch, whenever they were acquired and whatever else is due in between.
func (v validity) nextRenewal(base Instant) Instant {
	return base.Add(v.ttl / 3).floor(v.ttl / 10)
}

// retryRenewal is when to renew again what failed at now. Leases that fail together are tried again
// together.
func (v validity) retryRenewal(now Instant) Instant {
	return now.Add(v.ttl / 10).floor(v.ttl / 20)
}

// deadline publishes the moment at which a lease is lost, for the methods of a lease that don't
// wait for the engine's mutex.
type deadline struct{ at atomic.Int64 }

func (d *deadline) set(at Instant)          { d.at.Store(int64(at)) }
func (d *deadline) instant() Instant        { return Instant(d.at.Load()) }
func (d *deadline) passed(now Instant) bool { return now >= d.instant() }

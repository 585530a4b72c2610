package driver

import "time"

// A lease with a minimum hold that is released early is over for its holder at once. The engine
// keeps it: it stays on the service, and is renewed, until the minimum hold is over. Then it is
// removed as any other. The driver knows nothing of it.

// keep keeps a lease that has just ended until its minimum hold is over. It returns false when that
// is over already.
func (e *engine) keep(l *lease, now Instant) bool {
	if now >= l.minHoldEnd() {
		return false
	}
	l.become(kept)
	l.removal.deferred = true
	v := l.validity
	e.plan(l, max(v.nextRenewal(v.base), v.retryRenewal(Stamp())))
	return true
}

// minHoldEnd is when the minimum hold of a lease is over.
func (l *lease) minHoldEnd() Instant { return l.heldSince.Add(l.req.MinHold) }

// keepEnd is when a lease that is kept must be removed: when its minimum hold is over, or when the
// service could have given the lock to somebody else because no renewal was confirmed.
func (l *lease) keepEnd() Instant { return min(l.minHoldEnd(), l.validity.expiry()) }

// endKeep begins the removal of a lease that was kept.
func (e *engine) endKeep(l *lease) {
	l.keptUntil = Now()
	e.startRemoval(l)
}

// removingSince is when the removal of an acquisition that is over began.
func (l *lease) removingSince() Instant {
	if l.keptUntil != Never {
		return l.keptUntil
	}
	return l.endedAt
}

// longestKeep is how long it takes until no lease is kept any more.
func (e *engine) longestKeep() time.Duration {
	var longest time.Duration
	now := Now()
	for l := range e.leases {
		if l.phase == kept {
			longest = max(longest, l.minHoldEnd().Sub(now))
		}
	}
	return longest
}

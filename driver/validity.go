package driver

import "time"

// expiry is when the service could let somebody else in, seen from here: the allowance for clocks is taken off.
func (l *lease) expiry() Instant {
	if l.ttl == 0 {
		return Never
	}
	return l.base.Add(l.ttl - l.ttl/100 - 2*time.Millisecond)
}

// renewal is when to renew what was renewed last at base: after a third of the TTL, or up to a tenth of the TTL
// earlier, on a grid of that tenth. So leases with one TTL fall due together and go in one batch, whenever they were
// acquired and whatever else is due in between.
func (l *lease) renewal(base Instant) Instant { return base.Add(l.ttl / 3).floor(l.ttl / 10) }

// extend sets the deadline from the base, the TTL and the longest hold.
func (l *lease) extend() { l.deadline.Store(int64(min(l.expiry(), l.limit))) }

// renewLimit bounds one call of Renew so that there is time for another before the deadline.
func renewLimit(ttl time.Duration) time.Duration {
	if ttl == 0 {
		return callLimit
	}
	return min(ttl/4, callLimit)
}

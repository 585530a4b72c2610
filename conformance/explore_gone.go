package conformance

import (
	"time"

	"github.com/fencedlock/locker"
)

// When nothing of an attempt can keep others out any more.

// removalBound is how long it may take to remove what was left, on a service that can be reached: a
// call that hangs until its own timeout, and the longest pause before the next.
const removalBound = 15 * time.Second

// removal is the longest time until all is gone that an attempt has left, once the service can be
// reached again. What is attached to a session may have to wait for the session's end, and what a
// Close could not remove for the end of the TTL: a Locker that is closed sends nothing any more.
func (m *model) removal(a *attempt) time.Duration {
	limit := m.h.Slack + removalBound
	if m.tooLate(a) || m.h.guarantees.Expiry.By != locker.ExpiryKey || a.party.closeErr != nil {
		limit += m.expiry(a)
	}
	return limit
}

// tooLate reports whether a request of a, or a copy, may have created a lock after the removal,
// which then has its whole TTL.
func (m *model) tooLate(a *attempt) bool {
	now := time.Now()
	return m.disturbed(a.party, a.began.at, now, func(f *fault) bool { return m.unstopped(a, f, now) })
}

// copied reports whether a copy of a request of a that nothing has stopped may hold the lock.
func (m *model) copied(a *attempt, at time.Time) bool {
	return m.disturbed(a.party, a.began.at, at, func(f *fault) bool {
		passed := !f.to.IsZero() && at.After(f.to.Add(m.expiry(a)))
		return f.kind == "repeat-request" && m.unstopped(a, f, at) && !passed
	})
}

// unstopped reports whether what stops late requests on the service may be forgotten when a message
// arrives that f has made late: more than a TTL after it was sent, or when the service has lost data.
func (m *model) unstopped(a *attempt, f *fault, at time.Time) bool {
	if f.late == 0 || f.late >= m.asked(a) {
		return f.late > 0
	}
	for _, loss := range m.faults {
		if m.losesData(loss.kind) && loss.overlaps(a.began.at, at) {
			return true
		}
	}
	return false
}

// setBack reports whether the service may have gone back to data from before the end of a, as after
// a failover to a replica that has missed it. Then the lock is held until its TTL ends.
func (m *model) setBack(a *attempt, at time.Time) bool {
	for _, f := range m.faults {
		persisted := f.kind == "restart" && m.h.guarantees.Restart == locker.RestartAsPersisted
		if back := persisted || f.kind == "failover"; back && f.overlaps(a.began.at, at) && (f.to.IsZero() || !at.After(f.to.Add(m.expiry(a)))) {
			return true
		}
	}
	return false
}

// expiry is the longest time from the last sign of life of a's Locker until somebody else may have
// the lock.
func (m *model) expiry(a *attempt) time.Duration {
	return m.inForce(a) + m.h.guarantees.Expiry.Slack + m.h.Slack
}

// gone reports whether nothing of a can have kept anybody out at the moment, or since: it is the
// contract's upper bounds, of which one is enough.
func (m *model) gone(a *attempt, at moment) bool {
	p := a.party
	switch {
	case m.setBack(a, at.at):
		return false
	case a.freed.before(at):
		return !m.copied(a, at.at) // nil from Release is a promise
	case p.closed.before(at) && p.closeErr == nil && !a.pending():
		return !m.copied(a, at.at) // and so is nil from Close
	case m.silenced(a, at.at):
		return true
	case a.pending() || a.isLive():
		return false
	}
	end := a.returned
	if a.lease != nil {
		end = a.ended
		if !end.happened() { // it has ended just now
			return false
		}
	}
	if a.refused() && !a.waits() && m.undisturbed(p, a.began.at, end.at) {
		return end.before(at) // an attempt that was refused has left nothing
	}
	limit := m.h.Slack
	switch last := m.calmSince(p, at.at); {
	case !last.Before(a.began.at.Add(-m.grace())):
		limit = m.removal(a)
		if last.After(end.at) {
			end.at = last
		}
	case a.lease != nil && a.step.NoRenewal && !a.asked.happened():
		limit = m.expiry(a) // nobody need hurry with what has expired
	}
	return at.at.After(end.at.Add(limit))
}

// silenced reports whether the service has heard nothing of a's Locker for so long that a's lock
// or place has ended: Expiry counts from the last message, also for a waiter that was granted the
// lock later.
func (m *model) silenced(a *attempt, at time.Time) bool {
	if !m.h.guarantees.Expiry.TTL {
		return false
	}
	for _, f := range a.party.faults {
		if over := !f.healed.IsZero() && !at.Before(f.healed); !f.silent() || f.from.After(at) || over {
			continue
		}
		limit, countable := m.expiry(a), true
		for _, other := range append(a.party.faults[:len(a.party.faults):len(a.party.faults)], m.faults...) {
			if other == f || !other.overlaps(f.from.Add(-m.grace()), at) {
				continue
			}
			switch other.kind {
			case "cut", "cut-requests", "cut-replies", "sever", "drop", "forget", "lose-request", "lose-reply":
				// Nothing is late by that.
			case "delay":
				limit += other.late
			default:
				countable = false // a request may be on its way, or the service did not count
			}
		}
		if !countable {
			continue
		}
		if m.attached() && (a.lease == nil || a.returned.at.After(f.from)) {
			limit += m.inForce(a) // a connection isn't idle while a statement waits on it
		}
		if at.After(f.from.Add(limit)) {
			return true
		}
	}
	return false
}

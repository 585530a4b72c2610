package conformance

import (
	"time"

	"github.com/fencedlock/locker"
)

// What a fault makes uncertain. Each exemption from an invariant is in this file, with its reason.

// fault is a disturbance of one Locker's link, or of the service.
type fault struct {
	kind     Verb
	from, to time.Time     // to is zero until it has ended
	late     time.Duration // how late messages are that were sent meanwhile
}

func (f *fault) overlaps(from, to time.Time) bool {
	return !f.from.After(to) && (f.to.IsZero() || !f.to.Before(from))
}

// silent reports whether the service hears nothing of the Locker while the fault lasts.
func (f *fault) silent() bool { return f.kind == "cut" || f.kind == "cut-requests" }

// disturbed reports whether p's link or the service was disturbed at some time in the span by a
// fault for which which is true.
func (m *model) disturbed(p *party, from, to time.Time, which func(*fault) bool) bool {
	for _, faults := range [][]*fault{p.faults, m.faults} {
		for _, f := range faults {
			if f.overlaps(from, to) && which(f) {
				return true
			}
		}
	}
	return false
}

func anyFault(*fault) bool { return true }

// calm reports whether nothing has disturbed p in the span.
func (m *model) calm(p *party, from, to time.Time) bool { return !m.disturbed(p, from, to, anyFault) }

// calmSince is when the last disturbance of p ended before now; now, if one goes on.
func (m *model) calmSince(p *party, now time.Time) (last time.Time) {
	for _, faults := range [][]*fault{p.faults, m.faults} {
		for _, f := range faults {
			end := f.to
			if end.IsZero() || end.After(now) {
				end = now
			}
			if !f.from.After(now) && end.After(last) {
				last = end
			}
		}
	}
	return last
}

// grace is how long after a fault a call may still fail: connections are found broken, and
// sessions end, when they are used.
func (m *model) grace() time.Duration { return m.longest + 2*time.Second + m.h.Slack }

// undisturbed reports whether a call of p between the two moments has no excuse for failing.
func (m *model) undisturbed(p *party, from, to time.Time) bool {
	return m.calm(p, from.Add(-m.grace()), to)
}

// removal is the longest time until all is gone that an attempt has left, once the service can be
// reached again: a call that hangs until its own timeout, and the longest pause before the next.
// What is attached to a session may have to wait for the session's end.
func (m *model) removal(a *attempt) time.Duration {
	limit := m.h.Slack + 15*time.Second
	if m.tooLate(a) || m.h.guarantees.Expiry.By != locker.ExpiryKey {
		limit += m.expiry(a)
	}
	return limit
}

// tooLate reports whether a request of a, or a copy, may have arrived later than a TTL after it was
// sent. What stops late requests on the service may be forgotten by then, so the request may have
// created a lock, which then has its whole TTL.
func (m *model) tooLate(a *attempt) bool {
	return m.disturbed(a.party, a.began.at, time.Now(), func(f *fault) bool { return f.late >= m.asked(a) })
}

// copied reports whether a copy of a request of a that arrived too late may hold the lock.
func (m *model) copied(a *attempt, at time.Time) bool {
	return m.disturbed(a.party, a.began.at, at, func(f *fault) bool {
		return f.kind == "repeat-request" && f.late >= m.asked(a) && (f.to.IsZero() || !at.After(f.to.Add(m.expiry(a))))
	})
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
		if !f.silent() || f.from.After(at) || !f.to.IsZero() && f.to.Before(at) {
			continue
		}
		limit, countable := m.expiry(a), true
		for _, other := range append(a.party.faults[:len(a.party.faults):len(a.party.faults)], m.faults...) {
			if other == f || !other.overlaps(f.from.Add(-m.grace()), at) {
				continue
			}
			switch other.kind {
			case "cut", "cut-requests", "cut-replies", "sever", "drop", "lose-request", "lose-reply":
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

// attached reports whether what a lease is attached to ends with the connection.
func (m *model) attached() bool { return m.h.guarantees.Expiry.By <= locker.ExpiryConnection }

// doubted notes after a fault which leases may be held by somebody else too, by contract. A lease
// that is attached to a connection ends with it, and its holder may learn that a little later.
func (m *model) doubted(p *party, kind Verb) {
	losesData := kind == "wipe" || kind == "failover" ||
		kind == "restart" && m.h.guarantees.Restart < locker.RestartLeases
	breaks := kind == "sever" || kind == "drop" || kind == "restart" || kind == "down"
	if !losesData && (!m.attached() || !breaks) {
		return
	}
	for _, attempts := range m.locks {
		for _, a := range attempts {
			if (p == nil || a.party == p) && a.doubt == "" && !a.ended.happened() && (a.pending() || a.lease != nil) {
				a.doubt = "the service may have lost it by " + string(kind)
			}
		}
	}
}

// removed notes which leases on a lock an operator may have taken away between began and now. If
// somebody surely held the lock, it was that lease.
func (m *model) removed(lock string, began moment, sure *attempt) {
	for _, a := range m.locks[lock] {
		if a.doubt != "" || sure != nil && a != sure || m.gone(a, began) {
			continue
		}
		a.doubt = "an operator has removed it"
	}
	if sure != nil {
		sure.mustKnow = m.mustKnow(sure)
	}
}

// mustKnow is when a holder must have learnt that the service has taken its lock away.
func (m *model) mustKnow(a *attempt) time.Time {
	switch r := m.h.guarantees.Revocation; {
	case r == locker.RevocationAtOnce:
		return time.Now().Add(m.h.Slack)
	case r == locker.RevocationRenewal && m.h.TTL > 0 && !a.step.NoRenewal:
		return time.Now().Add(m.expiry(a))
	}
	return time.Time{}
}

// mayBeLost reports whether the contract allows that the lease ends with ErrLost now, without its
// holder's doing. A single renewal that fails is no reason, nor is a broken connection where the
// lease has a TTL of its own.
func (m *model) mayBeLost(a *attempt, now time.Time) bool {
	p, deadline := a.party, a.lease.Deadline()
	if a.doubt != "" {
		return true
	}
	if m.attached() {
		return m.disturbed(p, a.began.at.Add(-m.grace()), now, anyFault)
	}
	if !deadline.IsZero() && !now.Before(deadline) {
		// From half a TTL before the deadline on, there was time for a renewal that succeeds.
		// But a machine that may be late by that time may be too late for all renewals.
		calm := m.inForce(a)/2 + m.h.Slack
		return m.h.Slack >= m.inForce(a)/2 || m.disturbed(p, deadline.Add(-calm), now, anyFault)
	}
	if m.h.guarantees.Expiry.By == locker.ExpirySession {
		// The service may end a session that was silent, or of which it has heard too late.
		return m.disturbed(p, a.began.at.Add(-m.grace()), now, func(f *fault) bool { return f.kind != "sever" })
	}
	return false
}

package conformance

import (
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

// What a fault makes uncertain. Each exemption from an invariant is in this file or in
// explore_gone.go, with its reason.

// fault is a disturbance of one Locker's link, or of the service.
type fault struct {
	kind     Verb
	from, to time.Time     // to is zero until it has ended
	healed   time.Time     // zero until Heal; earlier than to if something was on its way then
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

func anyButRemoval(f *fault) bool { return f.kind != "remove" }

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
	// A service may count its recovery from the first request of each prefix.
	recovers := m.h.Recovery > 0 && p.opening.Prefix != "" && len(m.faults) > 0
	return !recovers && m.calm(p, from.Add(-m.grace()), to) && !m.unnoticed(p, from)
}

// unnoticed reports whether the service may have ended the connections of p behind a cut, or the network
// has forgotten them, and no call of p has returned since. The next call finds that out.
func (m *model) unnoticed(p *party, from time.Time) bool {
	for _, f := range p.faults {
		if f.kind == "forget" && !f.healed.IsZero() && !m.returned(p, f.healed, from) {
			return true
		}
	}
	for _, ended := range m.faults {
		for _, cut := range p.faults {
			behind := strings.HasPrefix(string(cut.kind), "cut") && cut.overlaps(ended.from, ended.to)
			if behind && !cut.healed.IsZero() && !m.returned(p, cut.healed, from) {
				return true
			}
		}
	}
	return false
}

// returned reports whether a call of Acquire of p has begun and returned in the span.
func (m *model) returned(p *party, from, to time.Time) bool {
	for _, a := range m.attempts {
		if a.party == p && a.began.at.After(from) && a.returned.happened() && a.returned.at.Before(to) {
			return true
		}
	}
	return false
}

// reachable reports whether the service could notify a waiter of p in the whole span: no fault went
// on, and p has recovered from those before. A break that both ends notice is found at once. What
// else was missed is found by the next renewal, which comes at a third of the TTL.
func (m *model) reachable(p *party, from, to time.Time) bool {
	for _, faults := range [][]*fault{p.faults, m.faults} {
		for _, f := range faults {
			recovery := m.h.Slack + removalBound
			if f.kind != "sever" {
				recovery += m.longest / 2
			}
			if f.overlaps(from.Add(-min(recovery, m.grace())), to) {
				return false
			}
		}
	}
	return true
}

// slow reports whether a call may be too late for the time limits of a request, which are parts of the TTL:
// the harness allows the machine half a TTL.
func (m *model) slow() bool { return m.h.TTL > 0 && m.h.Slack >= m.h.TTL/2 }

// mustSucceed reports whether a call of p that waited for nothing between the two moments has no
// excuse for failing.
func (m *model) mustSucceed(p *party, from, to time.Time) bool {
	late := m.slow() && to.Sub(from) > m.h.TTL/10
	return !late && m.undisturbed(p, from, to)
}

// recovering reports whether the service may have granted nothing at some time in the span, because
// it may have forgotten who holds a lock. Then it may say that the lock is held.
func (m *model) recovering(from, to time.Time) bool {
	return m.h.Recovery > 0 && slices.ContainsFunc(m.faults, func(f *fault) bool { return f.overlaps(from, to) })
}

// attached reports whether what a lease is attached to ends with the connection.
func (m *model) attached() bool { return m.h.guarantees.Expiry.By <= locker.ExpiryConnection }

// doubted notes after a fault which leases may be held by somebody else too, by contract. A lease
// that is attached to a connection ends with it, and its holder may learn that a little later.
func (m *model) doubted(p *party, kind Verb) {
	if !m.loses(kind) {
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

// losesData reports whether the service may lose locks by a fault.
func (m *model) losesData(kind Verb) bool {
	return kind == "wipe" || kind == "failover" ||
		kind == "restart" && m.h.guarantees.Restart < locker.RestartLeases
}

// loses reports whether a fault may take leases away from their holders.
func (m *model) loses(kind Verb) bool {
	breaks := kind == "sever" || kind == "drop" || kind == "forget" || kind == "restart" || kind == "down" || kind == "remove"
	return m.losesData(kind) || m.attached() && breaks
}

// doubtNew notes that the service may be about to lose a lease that it has just granted. The caller
// has the mutex.
func (m *model) doubtNew(a *attempt) {
	for _, f := range m.faults {
		if f.to.IsZero() && m.loses(f.kind) {
			a.doubt = "the service may lose it by " + string(f.kind)
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

// mustKnow is when a holder must have learnt that the service has taken its lock away, if nothing
// disturbs it. It is zero if the backend doesn't promise that.
func (m *model) mustKnow(a *attempt) time.Time {
	switch r := m.h.guarantees.Revocation; {
	case r == locker.RevocationAtOnce:
		return time.Now().Add(m.h.Slack)
	case r == locker.RevocationRenewal && m.h.TTL > 0 && !a.step.NoRenewal:
		return time.Now().Add(m.expiry(a))
	}
	return time.Time{}
}

// mustEnd is when the lease of a holder whose lock was taken away must have ended, whatever the
// holder has missed: from then on no renewal succeeds, so the TTL counts from an earlier request. It
// is zero if a renewal doesn't see the removal.
func (m *model) mustEnd(a *attempt) time.Time {
	if g := m.h.guarantees; g.Revocation < locker.RevocationRenewal || !g.Expiry.TTL {
		return time.Time{}
	}
	return time.Now().Add(m.expiry(a))
}

// slowLosses are the classes of losses that a slow machine explains.
var slowLosses = map[string]bool{locker.LossProcessLate: true, locker.LossServiceSilent: true}

// mayBeLost reports whether the contract allows that the lease ends with ErrLost now, without its
// holder's doing. A single renewal that fails is no reason, nor is a broken connection where the
// lease has a TTL of its own.
func (m *model) mayBeLost(a *attempt, now time.Time) bool {
	p, deadline := a.party, a.lease.Deadline()
	if a.doubt != "" {
		return true
	}
	over := !deadline.IsZero() && !now.Before(deadline)
	late := m.h.Slack >= m.inForce(a)/2 // a machine that may be late by that time may be too late for all renewals
	if m.attached() {
		wasLate := over && late && slowLosses[locker.LossOf(a.lease.Err())]
		return wasLate || m.disturbed(p, a.began.at.Add(-m.grace()), now, anyFault)
	}
	if over {
		// From half a TTL before the deadline on, there was time for a renewal that succeeds.
		calm := m.inForce(a)/2 + m.h.Slack
		return late || m.disturbed(p, deadline.Add(-calm), now, anyFault)
	}
	if m.h.guarantees.Expiry.By == locker.ExpirySession {
		// The service may end a session that was silent, or of which it has heard too late.
		return m.disturbed(p, a.began.at.Add(-m.grace()), now, func(f *fault) bool { return f.kind != "sever" })
	}
	return false
}

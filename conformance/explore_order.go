package conformance

import (
	"time"

	"github.com/fencedlock/locker"
)

// The checks of who gets a lock next, and when.

// ordered checks that a has not overtaken a waiter that came earlier and that nothing has
// disturbed.
func (m *model) ordered(a *attempt) {
	if !a.waits() {
		return
	}
	var mine time.Time // when a can have become the first waiter of its Locker
	for _, b := range m.locks[a.lock] {
		if b.party != a.party || b == a || !b.waits() {
			continue
		}
		if b.pending() && b.began.at.Add(m.gap()).Before(a.began.at) && !m.leaving(b) {
			m.overtakings = append(m.overtakings, overtaking{b, a})
		}
		if b.returned.at.After(mine) && b.began.at.Add(m.gap()).Before(a.began.at) {
			mine = b.returned.at // until then a was not the first
		}
	}
	if m.h.guarantees.Order < locker.OrderFIFO {
		return
	}
	if mine.Before(a.began.at) {
		mine = a.began.at
	}
	for _, p := range m.parties {
		if p == a.party {
			continue
		}
		first, since := m.head(p, a.lock)
		if first == nil || !since.Add(m.gap()).Before(mine) || !m.undisturbed(p, since, a.returned.at) {
			continue
		}
		m.breach(inOrder, "%v of locker %d has the lock %q, and %v of locker %d has waited for it longer",
			a, a.party.number, a.name, first, p.number)
	}
}

// overtaking is a grant to a waiter though an earlier one of the same Locker waited.
type overtaking struct{ first, next *attempt }

// overtaken looks at the overtakings. If the earlier waiter failed at the same time, as when its
// connection broke, it has left its place to the next, and its call may return a little later.
func (m *model) overtaken(now moment) {
	for len(m.overtakings) > 0 {
		first, next := m.overtakings[0].first, m.overtakings[0].next
		late := next.returned.at.Add(m.h.Slack)
		if first.pending() && !now.at.After(late) {
			return // it may be failing
		}
		m.overtakings = m.overtakings[1:]
		if first.pending() || first.lease != nil || first.returned.at.After(late) {
			m.breach(inOrder, "%v has the lock %q before %v, which has waited longer in the same locker",
				next, next.name, first)
		}
	}
}

// gap is how much later than another a waiter must have come, to be surely later.
func (m *model) gap() time.Duration { return m.h.Slack + m.h.Settle }

// leaving reports whether a waiter may be about to give up.
func (m *model) leaving(a *attempt) bool {
	return a.cancelled.happened() || a.party.closing.happened() ||
		a.step.Wait > 0 && !time.Now().Before(a.began.at.Add(a.step.Wait))
}

// head returns the waiter of p that has asked the service for the lock, and since when. It returns
// nil if it isn't sure that there is one that stays.
func (m *model) head(p *party, lock string) (first *attempt, since time.Time) {
	var last time.Time
	for _, a := range m.locks[lock] {
		switch {
		case a.party != p || !a.waits():
		case !a.pending():
			if a.returned.at.After(last) {
				last = a.returned.at
			}
		case m.leaving(a):
			return nil, time.Time{}
		case first == nil || a.began.at.Before(first.began.at):
			first = a
		}
	}
	if first == nil {
		return nil, time.Time{}
	}
	if since = first.began.at; last.After(since) {
		since = last
	}
	return first, since
}

// served checks that a lock which nobody can hold has gone to one of its waiters.
func (m *model) served(lock string, attempts []*attempt, now moment) {
	bound := m.h.HandOffLimit()
	since := moment{at: now.at.Add(-bound)}
	var waiter *attempt
	heads := make(map[*party]bool)
	for _, a := range attempts {
		if a.pending() && a.waits() && !heads[a.party] {
			if first, asked := m.head(a.party, lock); first != nil && !asked.After(since.at) && m.reachable(a.party, since.at, now.at) {
				waiter, heads[a.party] = first, true
			}
		}
	}
	if waiter == nil {
		return
	}
	for _, a := range attempts {
		if a.pending() && heads[a.party] && a.waits() {
			continue
		}
		if a.began.at.After(since.at) || !m.gone(a, since) {
			return
		}
	}
	m.breach(freeIsGranted, "%v has waited for the lock %q for %v, and for at least %v nobody can have held it",
		waiter, waiter.name, now.at.Sub(waiter.began.at), bound)
}

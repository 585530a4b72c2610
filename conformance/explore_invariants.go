package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// invariant is a rule of the contract that every program must find kept.
type invariant struct{ name, why string }

var (
	exclusion = invariant{"one holder", "two holders that both believe in their lease do the work twice, " +
		"or destroy each other's"}
	endIsKnown = invariant{"the end of a lease is known", "a holder that isn't told works on without the lock, " +
		"and one that is told two things can't know which is true"}
	answersMatch = invariant{"answers are true", "a program decides by what a call returns; an answer that " +
		"doesn't match what has happened leads it astray"}
	callsReturn = invariant{"calls return", "a caller that hangs can neither do its work nor give up"}
	rising      = invariant{"tokens rise", "a storage that has seen a token refuses every smaller token; if tokens " +
		"don't rise, a holder is refused or a stale one is accepted"}
	freeIsGranted = invariant{"a free lock is granted", "a lock that nobody holds and nobody can get is lost " +
		"until somebody repairs it by hand"}
	inOrder = invariant{"waiters are served in order", "without an order some waiter may wait forever while others " +
		"get the lock several times"}
	untouched = invariant{"nothing fails that nothing disturbs", "a lease that is lost and a call that fails " +
		"without a reason stop work that could go on"}
	tokenIsTrue = invariant{"the current token is a holder's", "a service that is asked whether a token is current " +
		"must not answer for a former holder, nor deny the holder"}
	nothingStays = invariant{"nothing stays behind", "what is left on the service or in the process, such as a key or a " +
		"goroutine, is a leak in a program that runs for months"}
)

// acquired checks the answer to a call of Acquire.
func (m *model) acquired(a *attempt) {
	calm := m.undisturbed(a.party, a.began.at, a.returned.at)
	switch {
	case (a.lease == nil) == (a.err == nil):
		m.breach(answersMatch, "Acquire of %v = %v, %v: want either a lease or an error", a, a.lease, a.err)
	case a.err != nil:
		m.failed(a, calm)
	default:
		m.granted(a, calm)
	}
}

func (m *model) granted(a *attempt, calm bool) {
	token := a.lease.Token()
	m.note("%v has the lock %q of locker %d, with token %v", a, a.name, a.party.number, token)
	if a.lease.Name() != a.name {
		m.breach(answersMatch, "the lease of %v on %q has the name %q", a, a.name, a.lease.Name())
	}
	if token <= 0 || token <= a.floor {
		if m.fences(a) {
			m.breach(rising, "%v has token %v, and an earlier lease on the lock had %v", a, token, a.floor)
		}
	}
	if end := a.returned.at.Add(a.step.MaxHold + m.h.Slack); a.step.MaxHold > 0 && (a.lease.Deadline().IsZero() || a.lease.Deadline().After(end)) {
		m.breach(endIsKnown, "the deadline of %v is %v away, and its longest hold is %v", a, until(a.lease.Deadline()), a.step.MaxHold)
	}
	if a.step.Over {
		m.breach(answersMatch, "Acquire of %v has got the lock, and its context was over before the call", a)
	}
	m.exclusive(a)
	m.ordered(a)
	m.lastsEnough(a, calm)
}

// fences reports whether a's token must be larger than the earlier ones.
func (m *model) fences(a *attempt) bool {
	switch g := m.h.guarantees; {
	case g.Fencing < locker.FencingUntilDataLoss:
		return false
	default:
		for _, f := range m.faults {
			if f.kind == "wipe" && g.Fencing == locker.FencingDurable || f.kind == "failover" && g.Tolerance < locker.ToleranceFailover {
				return false // tokens are part of the data that was lost
			}
		}
	}
	return true
}

// exclusive checks that nobody but a believes that they have its lock. It looks at the other lease
// first: a lease that has ended doesn't come back, so both were believed in at the same time.
func (m *model) exclusive(a *attempt) {
	for _, other := range m.locks[a.lock] {
		if other == a || !other.isLive() || !a.isLive() {
			continue
		}
		// The answer of an earlier grant may come later; its token tells.
		if other.doubt != "" || a.doubt != "" && a.token < other.token && m.fences(a) {
			continue
		}
		m.breach(exclusion, "%v has the lock %q with token %v, and %v has it too, with token %v: its Err is nil, "+
			"its deadline %v away", a, a.name, a.token, other, other.token, until(other.lease.Deadline()))
	}
}

func until(t time.Time) any {
	if t.IsZero() {
		return "infinitely"
	}
	return time.Until(t)
}

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
			m.breach(inOrder, "%v has the lock %q before %v, which has waited longer in the same locker", a, a.name, b)
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

// lastsEnough checks that a new lease that isn't renewed has nearly its whole TTL.
func (m *model) lastsEnough(a *attempt, calm bool) {
	ttl := m.asked(a)
	if ttl == 0 || !calm || a.step.MaxHold > 0 || a.lease.Err() != nil {
		return
	}
	least := ttl/4 - m.h.Slack
	if a.step.NoRenewal {
		least = ttl - ttl/10 - 10*time.Millisecond - m.h.Slack
	}
	if left := a.lease.Deadline().Sub(a.returned.at); left < least {
		m.breach(untouched, "the new lease of %v lasts for %v, and its TTL is %v", a, left, ttl)
	}
}

// failed checks the error of Acquire.
func (m *model) failed(a *attempt, calm bool) {
	m.note("%v does not get the lock %q: %v", a, a.name, a.err)
	var e *locker.Error
	over := errors.Is(a.err, context.Canceled) || errors.Is(a.err, context.DeadlineExceeded)
	timedOut := a.step.Wait > 0 && !a.returned.at.Before(a.began.at.Add(a.step.Wait))
	switch {
	case !errors.As(a.err, &e):
		m.breach(answersMatch, "Acquire of %v = %#v, want a *locker.Error", a, a.err)
	case errors.Is(a.err, locker.ErrLost) || errors.Is(a.err, locker.ErrReleased):
		if a.inside == nil || a.inside.isLive() { // otherwise that is why its context is over
			m.breach(answersMatch, "Acquire of %v = %v, and it holds nothing that could have ended", a, a.err)
		}
	case errors.Is(a.err, locker.ErrHeldByCaller) && a.inside == nil:
		m.breach(answersMatch, "Acquire of %v = %v, and it holds nothing that could have ended", a, a.err)
	case a.inside != nil && a.inside.isLive() && !errors.Is(a.err, locker.ErrHeldByCaller):
		m.breach(answersMatch, "Acquire of %v with a context of %v, which has the lock, = %v, want ErrHeldByCaller", a, a.inside, a.err)
	case a.inside != nil:
	case errors.Is(a.err, locker.ErrClosed):
		if !a.party.closing.happened() {
			m.breach(answersMatch, "Acquire of %v = %v, and its locker is open", a, a.err)
		}
	case errors.Is(a.err, context.Canceled) && !a.cancelled.happened() && calm:
		m.breach(answersMatch, "Acquire of %v = %v, and nobody has cancelled it", a, a.err)
	case over && (a.cancelled.happened() || timedOut || !a.waits()):
		// It gave up; with NoWait, after a time limit that only a service without an answer reaches.
		if !a.waits() && calm && !a.cancelled.happened() {
			m.breach(untouched, "TryAcquire of %v = %v, and nothing disturbs its locker", a, a.err)
		}
	case a.refused() && a.waits():
		m.breach(answersMatch, "Acquire of %v = %v, and it may wait", a, a.err)
	case !a.refused() && calm:
		m.breach(untouched, "Acquire of %v = %v, and nothing disturbs its locker", a, a.err)
	}
	if errors.Is(a.err, context.Canceled) && a.cancelled.happened() && !errors.Is(a.err, errGiveUp) {
		m.breach(answersMatch, "Acquire of %v = %v, and the cause of the cancellation was: %v", a, a.err, errGiveUp)
	}
	if errors.Is(a.err, context.DeadlineExceeded) && a.waits() && calm && !a.refused() && m.heldThroughout(a) {
		m.breach(answersMatch, "Acquire of %v = %v, want ErrHeld as well: somebody held the lock all the time", a, a.err)
	}
	if a.refused() && m.allGone(a, a.began) {
		m.breach(freeIsGranted, "Acquire of %v on %q = %v, and nobody holds it, waits for it, or has left anything there", a, a.name, a.err)
	}
}

// heldThroughout reports whether the same lease was held during the whole call, and the call was
// long enough to learn that.
func (m *model) heldThroughout(a *attempt) bool {
	if a.returned.at.Sub(a.began.at) <= m.prompt() {
		return false
	}
	for _, b := range m.locks[a.lock] {
		if b.returned.before(a.began) && b.isLive() && b.doubt == "" {
			return true
		}
	}
	return false
}

// allGone reports whether since the moment nobody but a can have kept the lock.
func (m *model) allGone(a *attempt, since moment) bool {
	for _, b := range m.locks[a.lock] {
		if b != a && !m.gone(b, since) {
			return false
		}
	}
	return true
}

// ended checks the end of a lease, when Done is closed.
func (m *model) ended(a *attempt) {
	now := a.ended.at
	err, deadline := a.lease.Err(), a.lease.Deadline()
	a.endErr = err
	m.note("the lease of %v on %q has ended: %v", a, a.name, err)
	released, lost := errors.Is(err, locker.ErrReleased), errors.Is(err, locker.ErrLost)
	if err == nil || released == lost {
		m.breach(endIsKnown, "Done of %v is closed, and Err = %v: want either ErrReleased or ErrLost", a, err)
		return
	}
	if late := now.Sub(deadline); !deadline.IsZero() && late > m.h.Slack {
		m.breach(endIsKnown, "Done of %v was closed %v after its deadline", a, late)
	}
	held := now.Sub(a.began.at)
	switch {
	case released && !a.asked.happened() && !a.party.closing.happened():
		m.breach(endIsKnown, "the lease of %v has ended with %v, and nobody has released it", a, err)
	case released:
	case errors.Is(err, locker.ErrMaxHold):
		if a.step.MaxHold == 0 || held < a.step.MaxHold {
			m.breach(untouched, "the lease of %v was ended after %v, and its longest hold is %v", a, held, a.step.MaxHold)
		}
	case a.step.NoRenewal && !deadline.IsZero() && !now.Before(deadline):
	case !m.mayBeLost(a, now):
		m.breach(untouched, "the lease of %v is lost, %v before its deadline, and nothing has happened that allows it: %v",
			a, until(deadline), err)
	}
}

// renewalAnswered checks the answer to a call of Renew that began at the moment.
func (m *model) renewalAnswered(a *attempt, began moment, err error) {
	now := m.now()
	m.note("Renew of %v = %v", a, err)
	calm := m.undisturbed(a.party, began.at, now.at)
	end := a.lease.Err()
	deadline := a.lease.Deadline()
	switch {
	case err == nil:
		left := deadline.Sub(began.at)
		if ttl := m.asked(a); ttl > 0 && calm && end == nil && a.step.MaxHold == 0 && left < ttl/2-m.h.Slack {
			m.breach(answersMatch, "Renew of %v = nil, and its deadline is %v after the call, with a TTL of %v", a, left, ttl)
		}
	case end != nil:
		if !errors.Is(err, locker.ErrReleased) && !errors.Is(err, locker.ErrLost) && calm {
			m.breach(answersMatch, "Renew of %v, which has ended (%v), = %v", a, end, err)
		}
	case errors.Is(err, locker.ErrLost) || errors.Is(err, locker.ErrReleased):
		m.breach(answersMatch, "Renew of %v = %v, and its Err is nil", a, err)
	case calm:
		m.breach(untouched, "Renew of %v = %v, and nothing disturbs its locker", a, err)
	}
}

// releaseAnswered checks the answer to a call of Release that began at the moment.
func (m *model) releaseAnswered(a *attempt, began moment, err error) {
	now := m.now()
	m.note("Release of %v = %v", a, err)
	end := a.lease.Err()
	lost := errors.Is(end, locker.ErrLost)
	switch {
	case end == nil:
		m.breach(endIsKnown, "Release of %v has returned (%v), and its Err is nil", a, err)
	case errors.Is(err, locker.ErrLost) != lost:
		m.breach(answersMatch, "Release of %v = %v, and its Err is %v", a, err, end)
	case err == nil:
		if !a.freed.happened() {
			a.freed = now
		}
	case !lost && m.undisturbed(a.party, began.at, now.at):
		m.breach(untouched, "Release of %v = %v, and nothing disturbs its locker", a, err)
	}
	if !step.WaitClosed(a.lease.Done(), 0) {
		m.breach(endIsKnown, "Release of %v has returned, and Done is open", a)
	}
}

// closeAnswered checks the answer to Close.
func (m *model) closeAnswered(p *party, err error) {
	now := m.now()
	p.closed, p.closeErr = now, err
	m.note("Close of locker %d = %v", p.number, err)
	for _, attempts := range m.locks {
		for _, a := range attempts {
			if a.party == p && a.isLive() {
				m.breach(endIsKnown, "Close of locker %d has returned, and Err of %v is nil", p.number, a)
			}
		}
	}
	if err != nil && m.undisturbed(p, p.closing.at, now.at) {
		m.breach(untouched, "Close of locker %d = %v, and nothing disturbs it", p.number, err)
	}
}

// tokenRead checks the answer to a call of CurrentToken.
func (m *model) tokenRead(p *party, lock string, began moment, sure *attempt, token locker.Token, err error) {
	now := m.now()
	m.note("CurrentToken on locker %d = %v, %v", p.number, token, err)
	switch {
	case errors.Is(err, locker.ErrClosed) && p.closing.happened():
	case err != nil && m.undisturbed(p, began.at, now.at):
		m.breach(untouched, "CurrentToken on locker %d = %v, and nothing disturbs it", p.number, err)
	case err != nil:
	case sure != nil && sure.isLive() && sure.doubt == "":
		if token != sure.lease.Token() {
			m.breach(tokenIsTrue, "CurrentToken = %v, and %v holds the lock with token %v", token, sure, sure.lease.Token())
		}
	case token != 0 && !m.mayHold(lock, token, began):
		m.breach(tokenIsTrue, "CurrentToken = %v, and no lease with this token can be held", token)
	}
}

// mayHold reports whether a lease with this token may have been held since the moment.
func (m *model) mayHold(lock string, token locker.Token, since moment) bool {
	for _, a := range m.locks[lock] {
		if (a.lease == nil || a.lease.Token() == token) && !m.gone(a, since) {
			return true
		}
	}
	return false
}

// sweep looks at everything that may have gone wrong by itself.
func (m *model) sweep() {
	now := m.now()
	for c := range m.calls {
		if !c.by.IsZero() && now.at.After(c.by) {
			m.breach(callsReturn, "%s has not returned, %v after it should have", c.what, now.at.Sub(c.by))
		}
	}
	for lock, attempts := range m.locks {
		waiting := false
		for _, a := range attempts {
			waiting = waiting || a.pending()
			m.look(a, now)
		}
		if waiting {
			m.served(lock, attempts, now)
		}
	}
}

// look looks at a lease that its holder believes in.
func (m *model) look(a *attempt, now moment) {
	if a.lease == nil {
		return
	}
	if token := a.lease.Token(); token != a.token {
		m.breach(rising, "the lease of %v had token %v, and has token %v now", a, a.token, token)
	}
	if a.ended.happened() {
		if a.lease.Err() == nil {
			m.breach(endIsKnown, "Err of %v was %v, and is nil now", a, a.endErr)
		}
		return
	}
	err, deadline := a.lease.Err(), a.lease.Deadline()
	if err != nil {
		return // Done will say so
	}
	if late := now.at.Sub(deadline); !deadline.IsZero() && late > m.h.Slack {
		m.breach(endIsKnown, "Err of %v is nil, %v after its deadline", a, late)
	}
	if !a.mustKnow.IsZero() && now.at.After(a.mustKnow) && m.undisturbed(a.party, a.returned.at, now.at) {
		m.breach(endIsKnown, "an operator has removed the lock of %v, and its Err is nil %v after it must have known", a, now.at.Sub(a.mustKnow))
	}
	ttl := m.asked(a)
	if ttl == 0 || a.step.NoRenewal || a.step.MaxHold > 0 || !m.undisturbed(a.party, a.began.at, now.at) {
		return
	}
	if left := deadline.Sub(now.at); left < ttl/4-m.h.Slack {
		m.breach(untouched, "the lease of %v is renewed, and its deadline is %v away, with a TTL of %v", a, left, ttl)
	}
}

// served checks that a lock which nobody can hold has gone to one of its waiters.
func (m *model) served(lock string, attempts []*attempt, now moment) {
	bound := m.h.HandOffLimit()
	since := moment{at: now.at.Add(-bound)}
	var waiter *attempt
	heads := make(map[*party]bool)
	for _, a := range attempts {
		if a.pending() && a.waits() && !heads[a.party] {
			if first, asked := m.head(a.party, lock); first != nil && !asked.After(since.at) && m.undisturbed(a.party, since.at, now.at) {
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

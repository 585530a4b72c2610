package conformance

import (
	"errors"
	"time"

	"github.com/fencedlock/locker"
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

// sweep looks at everything that may have gone wrong by itself.
func (m *model) sweep() {
	now := m.now()
	for c := range m.calls {
		if !c.by.IsZero() && now.at.After(c.by) {
			m.breach(callsReturn, "%s has not returned, %v after it should have", c.what, now.at.Sub(c.by))
		}
	}
	m.overtaken(now)
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
	if !a.mustKnow.IsZero() && now.at.After(a.mustKnow) &&
		!m.disturbed(a.party, a.returned.at.Add(-m.grace()), now.at, anyButRemoval) {
		m.breach(endIsKnown, "an operator has removed the lock of %v, and its Err is nil %v after it must have known", a, now.at.Sub(a.mustKnow))
	}
	if !a.mustEnd.IsZero() && now.at.After(a.mustEnd) {
		m.breach(endIsKnown, "an operator has removed the lock of %v, and its Err is nil %v after its TTL", a, now.at.Sub(a.mustEnd))
	}
	ttl := m.asked(a)
	if ttl == 0 || a.step.NoRenewal || a.step.MaxHold > 0 || !m.undisturbed(a.party, a.began.at, now.at) {
		return
	}
	if left := deadline.Sub(now.at); left < ttl/4-m.h.Slack {
		m.breach(untouched, "the lease of %v is renewed, and its deadline is %v away, with a TTL of %v", a, left, ttl)
	}
}

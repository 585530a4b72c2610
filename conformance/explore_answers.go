package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// The checks of what calls return.

// acquired checks the answer to a call of Acquire.
func (m *model) acquired(a *attempt) {
	calm := m.mustSucceed(a.party, a.began.at, a.returned.at)
	if a.waits() {
		late := m.slow() && errors.Is(a.err, locker.ErrNoAnswer) && a.returned.at.Sub(a.began.at) > m.h.TTL/10
		calm = !late && m.undisturbed(a.party, a.began.at, a.returned.at)
	}
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
	g := m.h.guarantees
	for _, f := range m.faults {
		if f.kind == "wipe" && g.Fencing == locker.FencingDurable || f.kind == "failover" && g.Tolerance < locker.ToleranceFailover {
			return false // tokens are part of the data that was lost
		}
	}
	return g.Fencing >= locker.FencingUntilDataLoss
}

// failed checks the error of Acquire.
func (m *model) failed(a *attempt, calm bool) {
	m.note("%v does not get the lock %q: %v", a, a.name, a.err)
	var e *locker.Error
	over := errors.Is(a.err, context.Canceled) || errors.Is(a.err, context.DeadlineExceeded)
	undisturbed := m.undisturbed(a.party, a.began.at, a.returned.at)
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
	case errors.Is(a.err, locker.ErrHeldByCaller) && a.refused():
		m.breach(answersMatch, "Acquire of %v = %v, which matches ErrHeld: nobody else has the lock", a, a.err)
	case a.inside != nil:
	case errors.Is(a.err, locker.ErrClosed):
		if !a.party.closing.happened() {
			m.breach(answersMatch, "Acquire of %v = %v, and its locker is open", a, a.err)
		}
	case errors.Is(a.err, context.Canceled) && !a.cancelled.happened() && calm:
		m.breach(answersMatch, "Acquire of %v = %v, and nobody has cancelled it", a, a.err)
	case errors.Is(a.err, context.DeadlineExceeded) && a.step.Wait < 0: // Forever
		m.breach(answersMatch, "Acquire of %v = %v, and its context has no deadline", a, a.err)
	case over && (a.cancelled.happened() || timedOut || !a.waits()):
		// It gave up; with NoWait, after a time limit that only a service without an answer reaches.
		if !a.waits() && calm && !a.cancelled.happened() {
			m.breach(untouched, "TryAcquire of %v = %v, and nothing disturbs its locker", a, a.err)
		}
	case errors.Is(a.err, locker.ErrTooManyTTLs) && m.manyTTLs(a.party):
	case a.refused() && a.waits():
		m.breach(answersMatch, "Acquire of %v = %v, and it may wait", a, a.err)
	case !a.refused() && calm:
		m.breach(untouched, "Acquire of %v = %v, and nothing disturbs its locker", a, a.err)
	}
	if errors.Is(a.err, context.Canceled) && a.cancelled.happened() && !errors.Is(a.err, errGiveUp) {
		m.breach(answersMatch, "Acquire of %v = %v, and the cause of the cancellation was: %v", a, a.err, errGiveUp)
	}
	if errors.Is(a.err, context.DeadlineExceeded) && a.waits() && undisturbed && !a.refused() && m.heldThroughout(a) {
		m.breach(answersMatch, "Acquire of %v = %v, want ErrHeld as well: somebody held the lock all the time", a, a.err)
	}
	if a.refused() && !m.recovering(a.began.at, a.returned.at) && m.allGone(a, a.began) {
		m.breach(freeIsGranted, "Acquire of %v on %q = %v, and by the contract nobody can hold it any more, wait for it, or have left anything there", a, a.name, a.err)
	}
}

// manyTTLs reports whether p was asked for more TTLs than a backend must allow in one Locker: some
// need a connection for each.
func (m *model) manyTTLs(p *party) bool {
	const allowed = 4
	ttls := make(map[time.Duration]bool)
	for _, a := range m.attempts {
		if a.party == p {
			ttls[a.step.TTL] = true
		}
	}
	return len(ttls) > allowed
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

// renewalAnswered checks the answer to a call of Renew that began at the moment.
func (m *model) renewalAnswered(a *attempt, began moment, err error) {
	now := m.now()
	m.note("Renew of %v = %v", a, err)
	calm := m.mustSucceed(a.party, began.at, now.at)
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
	case a.party.closeErr != nil: // nobody removes any more what Close could not remove
	case !lost && m.mustSucceed(a.party, began.at, now.at):
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
	if err != nil && m.mustSucceed(p, p.closing.at, now.at) {
		m.breach(untouched, "Close of locker %d = %v, and nothing disturbs it", p.number, err)
	}
}

// tokenRead checks the answer to a call of CurrentToken.
func (m *model) tokenRead(p *party, lock string, began moment, sure *attempt, token locker.Token, err error) {
	now := m.now()
	m.note("CurrentToken on locker %d = %v, %v", p.number, token, err)
	switch {
	case errors.Is(err, locker.ErrClosed) && p.closing.happened():
	case err != nil && m.mustSucceed(p, began.at, now.at):
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
		own := a.lease == nil || a.lease.Token() == token
		if own && !m.gone(a, since) || m.copied(a, since.at) {
			return true
		}
	}
	return false
}

package driver

import (
	"context"
	"slices"
	"time"
)

// renewal is the state of one lease's renewals. The engine's mutex guards it.
type renewal struct {
	running       bool  // a renewal in the background is due or under way
	predatesGrant bool  // that one began before the grant
	lastErr       error // of the last one; nil: it succeeded
	byHandErr     error // of the last renewal by hand; nil: that or a later one succeeded, or there was none
	failures      int   // of a lease, in a row, with those by hand

	// startedAt is when the renewal under way began, or the first one in an unbroken row of
	// failures, or when an earlier one was answered late. Without a renewal under way, or a failure,
	// it has no meaning.
	startedAt Instant
}

// start notes that a renewal in the background begins.
func (r *renewal) start(now Instant) {
	if r.lastErr == nil {
		r.startedAt = now
	}
	r.running = true
}

// end notes that the renewal in the background has its answer, or is not made. It reports whether
// its base may be used for the lease. The base of a renewal that began before the grant may not:
// the service may count the grant from an older refresh.
func (r *renewal) end() (countsForLease bool) {
	countsForLease = !r.predatesGrant
	r.running, r.predatesGrant = false, false
	return countsForLease
}

// unansweredSince returns since when the service has failed to answer renewals; Never when it
// answers.
func (r *renewal) unansweredSince() Instant {
	if r.running || r.lastErr != nil {
		return r.startedAt
	}
	return Never
}

// startRenewal renews a batch in a goroutine of its own, so that a batch that gets no answer delays
// no deadline and no other batch.
func (e *engine) startRenewal(ttl time.Duration, leases []*lease) {
	e.busy++
	go func() {
		defer e.leave()
		e.renewBatch(ttl, leases)
	}()
}

func (e *engine) renewBatch(ttl time.Duration, leases []*lease) {
	if leases = e.stillRenewable(leases); len(leases) == 0 {
		return
	}
	sent := Stamp()
	e.callRenew(context.Background(), ttl, leases, func(l *lease, base Instant, err error) {
		e.renewed(l, sent, base, err, true)
	})
}

// stillRenewable leaves out what has ended since the batch was made: its removal may be over by
// now.
func (e *engine) stillRenewable(leases []*lease) []*lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(leases, func(l *lease) bool {
		if l.isRenewable() {
			return false
		}
		l.renewal.end()
		return true
	})
}

// isRenewable reports whether the service still needs to hear of an acquisition.
func (l *lease) isRenewable() bool {
	return l.phase == holding || l.phase == queued || l.phase == kept
}

// renewed processes what the service said about one lock. An answer that comes after the end of the
// lease has no effect. sent is when the call of Renew was made.
func (e *engine) renewed(l *lease, sent, base Instant, err error, background bool) {
	why := newCause(err)
	e.mu.Lock()
	defer e.unlock()
	e.checkDeadline(l, Now()) // first: this answer may have come too late
	countsForLease := true
	if background {
		countsForLease = l.renewal.end()
	}
	if l.phase == asking && !countsForLease && why.lost { // a grant is examined whose place was lost
		e.lose(l, why)
		return
	}
	if !l.isRenewable() {
		return
	}
	if l.phase != queued && (!why.lost || l.phase == kept) && (err != nil || countsForLease) {
		e.noteRenewal(l, sent, err)
	}
	if why.lost {
		e.lose(l, why)
		return
	}
	if !background || err == nil {
		l.renewal.byHandErr = err
	}
	if err != nil && !background {
		return // a caller with a short time limit must not delay the next renewal
	}
	l.renewal.lastErr = err
	retry := l.validity.retryRenewal(Stamp())
	switch {
	case err != nil:
		e.plan(l, retry)
	case l.phase == queued:
		e.plan(l, l.validity.nextRenewal(Stamp()))
	default:
		if countsForLease {
			l.extend(l.validity.renewed(base, Now()))
		}
		e.plan(l, max(retry, l.validity.nextRenewal(l.validity.base)))
	}
}

// answeredLate processes the answer to a renewal that was given up before it came. sent is when the
// call of Renew was made. The answer counts for a lease, and for a grant that is being verified, unless
// the renewal began before the grant (see end). Of a place in the queue it says only that the service
// answers. An error says nothing new, unless the lease is lost.
func (e *engine) answeredLate(l *lease, sent, base Instant, err error) {
	why := newCause(err)
	e.mu.Lock()
	defer e.unlock()
	now := Now()
	e.checkDeadline(l, now)
	switch {
	case l.phase == queued && err == nil:
		l.renewal.lastErr, l.renewal.startedAt = nil, now
	case l.phase != holding && l.phase != asking || sent < l.grantedAt:
	case why.lost:
		e.lose(l, why)
	case l.phase == asking && err == nil:
		l.validity = l.validity.renewed(base, now)
	case err == nil && base > l.validity.base:
		e.noteRenewal(l, sent, nil)
		l.renewal.lastErr, l.renewal.byHandErr, l.renewal.startedAt = nil, nil, now
		l.extend(l.validity.renewed(base, now))
		e.plan(l, max(l.validity.retryRenewal(Stamp()), l.validity.nextRenewal(l.validity.base)))
	}
}

// plan gives an acquisition that is queued, held or kept its next moment: a renewal at next, unless
// one is under way or none is wanted, or the deadline, or the end of the minimum hold.
func (e *engine) plan(l *lease, next Instant) {
	if l.validity.ttl == 0 || l.renewal.running || l.phase != queued && l.req.NoRenewal {
		next = Never
	}
	switch l.phase {
	case holding:
		next = min(next, l.deadline.instant())
	case kept:
		next = min(next, l.keepEnd())
	}
	if next == Never {
		e.moments.remove(l)
		return
	}
	e.moments.set(l, next)
	e.arm()
}

package driver

import (
	"context"

	"github.com/fencedlock/locker"
)

// The methods note… are called where a fact changes. They count it, and make an event if an observer
// wants it. The engine's mutex is held.
//
// An Event is large. Made inline it would enlarge the stack frames of the functions around it, and
// the stacks of new goroutines would have to grow, also where nobody observes. So each is made in a
// method of its own that isn't inlined.

func (e *engine) noteWaiting(w *waiter, ahead int) {
	if w.behind || w.left {
		return
	}
	w.behind = true
	if e.recorder.wants&locker.EventWaiting != 0 {
		e.recordWaiting(w, ahead)
	}
}

//go:noinline
func (e *engine) recordWaiting(w *waiter, ahead int) {
	event := w.event(locker.EventWaiting)
	event.Ahead = ahead
	e.record(w.origin.values, &event)
}

func (e *engine) noteGranted(w *waiter, l *lease) {
	e.counts.granted++
	if w.behind {
		e.counts.contended++
	}
	if e.recorder.wants&locker.EventGranted != 0 {
		e.recordGranted(w, l)
	}
}

//go:noinline
func (e *engine) recordGranted(w *waiter, l *lease) {
	event := l.event(locker.EventGranted)
	event.Took, event.Contended = l.heldSince.Sub(w.origin.began), w.behind
	e.record(w.origin.values, &event)
}

// noteRefused doesn't count: see countRefused.
func (e *engine) noteRefused(w *waiter, err error) {
	if e.recorder.wants&locker.EventRefused != 0 {
		e.recordRefused(w, err)
	}
}

//go:noinline
func (e *engine) recordRefused(w *waiter, err error) {
	event := w.event(locker.EventRefused)
	event.Took, event.Cause = Stamp().Sub(w.origin.began), err
	e.record(w.origin.values, &event)
}

func (e *engine) noteRequeued(w *waiter, cause error) {
	if w.left {
		return
	}
	e.counts.requeued++
	if e.recorder.wants&locker.EventRequeued != 0 {
		e.recordRequeued(w, cause)
	}
}

//go:noinline
func (e *engine) recordRequeued(w *waiter, cause error) {
	event := w.event(locker.EventRequeued)
	event.Cause = cause
	e.record(w.origin.values, &event)
}

func (e *engine) noteAbandoned(l *lease) {
	e.counts.abandoned++
	if e.recorder.wants&locker.EventAbandoned != 0 {
		e.recordAbandoned(l)
	}
}

//go:noinline
func (e *engine) recordAbandoned(l *lease) {
	event := l.event(locker.EventAbandoned)
	event.Token = l.token
	e.record(l.origin.values, &event)
}

// noteRenewal is called before the deadline moves. sent is when the renewal was asked for.
func (e *engine) noteRenewal(l *lease, sent Instant, err error) {
	kind := locker.EventRenewed
	if err == nil {
		e.counts.renewed++
		l.renewal.failures = 0
	} else {
		e.counts.renewalsFailed++
		l.renewal.failures++
		kind = locker.EventRenewalFailed
	}
	if e.recorder.wants&kind != 0 {
		e.recordRenewal(l, kind, sent, err)
	}
}

//go:noinline
func (e *engine) recordRenewal(l *lease, kind locker.EventKind, sent Instant, err error) {
	event, now := l.event(kind), Stamp()
	event.Took, event.Tries, event.Cause = now.Sub(sent), l.renewal.failures, err
	if deadline := l.validity.deadline(); deadline != Never {
		event.Left = deadline.Sub(now)
	}
	e.record(l.origin.values, &event)
}

func (e *engine) noteLost(l *lease, class string, cause error) {
	e.counts.lost[class]++
	if e.recorder.wants&locker.EventLost != 0 {
		e.recordLost(l, cause)
	}
}

//go:noinline
func (e *engine) recordLost(l *lease, cause error) {
	event := l.event(locker.EventLost)
	event.Held, event.Cause = l.endedAt.Sub(l.heldSince), cause
	e.record(l.origin.values, &event)
}

// noteRemoval is called when a call of Release has returned err. wasFree: an earlier one had
// confirmed that the lock is free for others. failed is false also where answers are still to come.
func (e *engine) noteRemoval(l *lease, wasFree, failed bool, err error) {
	released := l.removal.ofRelease && !wasFree && l.removal.confirmedFree
	if released {
		e.counts.released++
		if e.recorder.wants&locker.EventReleased != 0 {
			e.recordReleased(l)
		}
	}
	switch {
	case failed:
		e.counts.removalsFailed++
		l.removal.failures++
		if e.recorder.wants&locker.EventRemoving != 0 {
			e.recordRemoving(l, err)
		}
	case err == nil && !released && l.removal.failures > 0 && e.recorder.wants&locker.EventRemoved != 0:
		e.recordRemoved(l)
	}
}

//go:noinline
func (e *engine) recordReleased(l *lease) {
	event := l.event(locker.EventReleased)
	event.Took, event.Held = Stamp().Sub(l.removingSince()), l.endedAt.Sub(l.heldSince)
	e.record(l.origin.values, &event)
}

//go:noinline
func (e *engine) recordRemoving(l *lease, err error) {
	event := l.event(locker.EventRemoving)
	event.Tries, event.Cause = l.removal.failures, err
	e.record(l.origin.values, &event)
}

//go:noinline
func (e *engine) recordRemoved(l *lease) {
	event := l.event(locker.EventRemoved)
	event.Took = Stamp().Sub(l.removingSince())
	e.record(l.origin.values, &event)
}

// noteClosed is called without the mutex.
func (e *engine) noteClosed(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.recorder.wants&locker.EventClosed != 0 {
		e.record(context.Background(), &locker.Event{Kind: locker.EventClosed, Cause: err})
	}
}

func (w *waiter) event(kind locker.EventKind) locker.Event {
	return locker.Event{Kind: kind, Name: w.req.Name, Slot: w.req.Slot, ID: w.origin.id, Holder: holder(&w.req)}
}

// event has the token and the TTL only if the acquisition became a lease.
func (l *lease) event(kind locker.EventKind) locker.Event {
	event := locker.Event{Kind: kind, Name: l.req.Name, Slot: l.req.Slot, ID: l.origin.id, Holder: holder(&l.req)}
	if l.heldSince != Never {
		event.Token, event.TTL = l.token, l.validity.ttl
	}
	return event
}

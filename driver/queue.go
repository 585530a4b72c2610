package driver

import (
	"context"
	"time"

	"github.com/fencedlock/locker"
)

// queue holds the waiters of this Locker for one lock, in the order in which they came. Only the
// head talks to the service, so a thousand waiters of one process are one contender there. A queue
// ends when its last waiter leaves. It is stored in the waiter that began it.
type queue struct {
	head, tail *waiter
	held       bool    // the service's last answer about this name was that somebody has the lock
	why        error   // of that answer: see HeldError
	askedAt    Instant // when the head sent a request that has no answer yet; Never: there is none
	length     int
}

// subject is what a queue is for: the lock of a name, or one of the name's slots.
type subject struct {
	name string
	slot int
}

func subjectOf(req *locker.Request) subject { return subject{req.Name, req.Slot} }

// waiter is one call of Acquire.
type waiter struct {
	e      *engine
	ctx    context.Context // the caller's
	req    locker.Request
	origin origin

	q          *queue // nil with NoWait, which never queues
	own        queue  // the storage of q, in the waiter that began it
	prev, next *waiter
	turn       chan struct{} // closed when this waiter becomes the head

	current *lease // the acquisition under way
	waited  bool   // the service has said that the lock is held
	behind  bool   // somebody else came first: another waiter, or another holder as the service has said

	left     bool          // the caller has gone, and nobody wants an outcome
	answered chan struct{} // closed when there is an outcome; nil: the caller makes the requests itself
	decided  bool          // there is an outcome: lease or err
	lease    *lease
	err      error
}

// callerErr is the error of the caller's context; nil: it isn't over. It must not be called under
// the engine's mutex.
func (w *waiter) callerErr() error {
	if traced, ok := w.ctx.(*tracedContext); ok {
		return ContextError(traced.Context) // the cause is a value of the context
	}
	return ContextError(w.ctx)
}

// isHead is true for a waiter that runs and has not left: the others in its queue rely on its
// answers.
func (w *waiter) isHead() bool { return w.q != nil && !w.left }

// maxAnswerAge is how long a new head, or the renewals of a queued one, may be without an answer
// before the waiters after it stop relying on the last one. From then on their time-out is a
// failure of the service, not ErrHeld.
const maxAnswerAge = time.Second

// answerIsFresh reports whether the service's last answer was that the lock is held, and is recent
// enough to rely on. While the head has its place in the service's queue it asks nothing, but its
// renewals show whether the service answers at all.
func (q *queue) answerIsFresh() bool {
	since := q.askedAt
	if since == Never && q.head != nil {
		if l := q.head.current; l != nil && l.phase == queued {
			since = l.renewal.unansweredSince()
		}
	}
	return q.held && (since == Never || Now().Sub(since) <= maxAnswerAge)
}

// join puts w at the end of the queue for its name. A request with NoWait doesn't queue: it is
// refused when the head knows that the lock is held, and otherwise asks by itself.
func (e *engine) join(w *waiter) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.queues[subjectOf(&w.req)]
	if w.req.NoWait {
		if q != nil && q.askedAt == Never && q.answerIsFresh() {
			return locker.ErrHeld
		}
		return nil
	}
	if q == nil {
		w.own = queue{head: w, tail: w, askedAt: w.origin.began, length: 1}
		w.q = &w.own
		e.queues[subjectOf(&w.req)] = w.q
		return nil
	}
	w.q, w.prev = q, q.tail
	q.tail.next = w
	q.tail = w
	w.turn = make(chan struct{})
	e.noteWaiting(w, q.length)
	q.length++
	return nil
}

// leaveQueue takes w out of its queue. When w was the head, the next waiter becomes the head.
func (e *engine) leaveQueue(w *waiter) {
	q := w.q
	if q == nil {
		return
	}
	q.length--
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.tail = w.prev
	}
	switch {
	case q.head == nil:
		delete(e.queues, subjectOf(&w.req))
	case w.prev == nil:
		q.askedAt = Stamp()
		close(q.head.turn)
	}
	w.prev, w.next = nil, nil
}

// giveUpError is the error for a caller whose context is over with callerErr. It matches ErrHeld
// only when the caller ran out of time and the service had said that the lock is held.
func (e *engine) giveUpError(w *waiter, callerErr error) error {
	switch q := w.q; {
	case q == nil || !q.answerIsFresh():
		if q != nil && q.head == w { // only w's renewals could show that; the next waiter has no renewals yet
			q.held = false
		}
		return gaveUp(callerErr, locker.OutcomeError, &withCause{locker.ErrNoAnswer, callerErr})
	case ranOut(callerErr):
		var err error = &withCause{locker.ErrHeld, callerErr}
		if q.why != nil {
			err = &noting{err, q.why}
		}
		return gaveUp(callerErr, locker.OutcomeTimeout, err)
	}
	return gaveUp(callerErr, "", callerErr)
}

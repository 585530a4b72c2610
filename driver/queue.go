package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// queue is those who wait in this Locker for one name, in the order in which they came. Only the head talks to the
// service, so a thousand waiters of one process are one contender there. The queue goes when the last of them leaves;
// it lives in the waiter that began it.
type queue struct {
	head, tail *waiter
	held       bool    // the service's last answer about this name was that somebody has the lock
	asked      Instant // when the head asked the question that has no answer yet; Never: it has its answer
}

// waiter is one call of Acquire.
type waiter struct {
	e   *engine
	ctx context.Context // the caller's
	req locker.Request

	q          *queue // nil with NoWait, which never queues
	own        queue  // of the one that began it
	prev, next *waiter
	turn       chan struct{} // closed when this waiter becomes the head

	current *lease // the acquisition under way
	waited  bool   // the service has said that the lock is held

	// The outcome, once answered is closed.
	answered chan struct{}
	settled  bool // there is an outcome
	left     bool // the caller has gone: nobody wants one
	lease    *lease
	err      error
}

// over is the error of the caller's context, if that is over. It must not be called under the engine's mutex.
func (w *waiter) over() error { return ContextError(w.ctx) }

// isHead is true for a waiter that runs and has not left: its answers are those that the others behind it wait for.
func (w *waiter) isHead() bool { return w.q != nil && !w.left }

// patience is how long a new head, or the renewals of one that is queued, may be without an answer before those behind it stop
// believing the last one: from then on their time-out is a failure of the service, not ErrHeld.
const patience = time.Second

// believed reports whether the service's last answer still goes, that somebody has the lock. While the head has its place in the
// service's queue, nothing is asked, but its renewals show whether the service answers at all.
func (q *queue) believed() bool {
	since := q.asked
	if since == Never && q.head != nil {
		if l := q.head.current; l != nil && l.phase == queued {
			since = l.renewal.unansweredSince()
		}
	}
	return q.held && (since == Never || Now().Sub(since) <= patience)
}

// join puts w at the end of the queue for its name. NoWait doesn't queue: it is refused beside a head that knows the
// lock to be held, and asks by itself otherwise.
func (e *engine) join(w *waiter) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return locker.ErrClosed
	}
	q := e.queues[w.req.Name]
	if w.req.NoWait {
		if q != nil && q.asked == Never && q.believed() {
			return locker.ErrHeld
		}
		return nil
	}
	if q == nil {
		w.own = queue{head: w, tail: w, asked: Stamp()}
		w.q = &w.own
		e.queues[w.req.Name] = w.q
		return nil
	}
	w.q, w.prev = q, q.tail
	q.tail.next = w
	q.tail = w
	w.turn = make(chan struct{})
	return nil
}

// leaveQueue takes w out, wherever it stands, and makes the next one the head when it was.
func (e *engine) leaveQueue(w *waiter) {
	q := w.q
	if q == nil {
		return
	}
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
		delete(e.queues, w.req.Name)
	case w.prev == nil:
		q.asked = Stamp()
		close(q.head.turn)
	}
	w.prev, w.next = nil, nil
}

var errNoAnswer = errors.New("no answer from the service")

// gaveUp is the error of a caller whose context is over, and has this error. It matches ErrHeld only when the caller
// ran out of time and the service had said that the lock is held.
func (e *engine) gaveUp(w *waiter, over error) error {
	switch q := w.q; {
	case q == nil || !q.believed():
		if q != nil && q.head == w { // what its renewals have shown is gone with it, and not to be judged again
			q.held = false
		}
		return fmt.Errorf("%w: %w", errNoAnswer, over)
	case ranOut(over):
		return fmt.Errorf("%w: %w", locker.ErrHeld, over)
	}
	return over
}

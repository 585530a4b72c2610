package driver

import (
	"errors"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/callerctx"
	"github.com/fencedlock/locker/internal/verdict"
)

// errRequeue says that an acquisition died while it waited, through no fault of the caller: the
// wait goes on with a new acquisition.
var errRequeue = errors.New("acquisition is lost")

// errLostAgain says that a lock was granted and lost before the caller had it.
var errLostAgain = errors.New("the lock was lost again before it was handed out")

// attempt is one acquisition, from its first request until it is granted or has ended.
type attempt struct {
	w    *waiter
	l    *lease
	call callContext // of the calls of Acquire

	// The answer to the last request.
	grant Grant
	err   error
	at    Instant // when it came
}

// begin makes the first request of l, unless the acquisition is over before that. Then there is no
// attempt, and the error is the reason.
func (w *waiter) begin(l *lease) (*attempt, error) {
	a := &attempt{w: w, l: l, call: callContext{parent: w.ctx}}
	if err := a.register(); err != nil {
		return nil, err
	}
	a.request()
	return a, nil
}

// beginNew makes the first request of another acquisition.
func (w *waiter) beginNew() (*attempt, error) {
	select {
	case <-w.e.closing: // the driver may be closed by now
		return nil, locker.ErrClosed
	default:
	}
	l, err := w.e.prepare(w.req)
	if err != nil {
		return nil, err
	}
	return w.begin(l)
}

// register makes the acquisition known to the engine, so that it can be lost and closed, and is
// removed in the end.
func (a *attempt) register() error {
	w, l, e := a.w, a.l, a.w.e
	callerErr := w.callerErr()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leases[l] = struct{}{}
	w.current, l.call, l.origin = l, &a.call, w.origin
	if e.closed {
		l.cause = newCause(locker.ErrClosed)
	}
	return e.ask(w, l, callerErr)
}

// ask notes that the next request goes out, unless the acquisition is over. callerErr is the error
// of the caller's context.
func (e *engine) ask(w *waiter, l *lease, callerErr error) error {
	if err := e.endIfOver(w, l, callerErr); err != nil {
		return err
	}
	if l.phase == prepared {
		l.become(asking)
	}
	w.noteAsked()
	return nil
}

// noteAsked notes that the head asks the service: the others in its queue rely on the answer. The
// engine's mutex is held.
func (w *waiter) noteAsked() {
	if w.isHead() {
		w.q.askedAt = Stamp()
	}
}

func (a *attempt) request() {
	a.grant, a.err = a.l.lock.Acquire(&a.call)
	a.at = Now()
	if !errors.Is(a.err, locker.ErrHeld) {
		a.err = withoutLoss(a.err) // a loss is reported by lost
	}
}

// mustWait reports whether the caller must wait for more than the answer that has come: for its
// turn, or for the verification of a grant.
func (a *attempt) mustWait() bool {
	if a.err != nil {
		return errors.Is(a.err, locker.ErrHeld) && !a.w.req.NoWait
	}
	return newValidity(a.grant, a.at).isStale(a.at, &a.w.req)
}

// conclude processes the answer that has come, and makes further requests while the lock is held.
func (a *attempt) conclude() error {
	defer a.call.end(nil)
	w, l, e := a.w, a.l, a.w.e
	pause := firstPause
	sent := Never // when the call was made that should block
	for ; ; a.request() {
		if a.err == nil {
			return a.granted()
		}
		if err := e.notGranted(w, l, a.err); err != nil {
			return err
		}
		if errors.Is(a.err, ErrQueued) { // the next call blocks, or this one should have
			if sent != Never && Stamp().Sub(sent) < firstPause {
				brief := firstPause
				e.sleep(&a.call, &brief, nil)
			}
			sent = Stamp()
			continue
		}
		held := heldError(a.err)
		if held.AskWithin != 0 {
			pause = min(pause, max(held.AskWithin, firstPause)) // the engine never spins
		}
		e.sleep(&a.call, &pause, held.AskWhen)
		if err := a.askAgain(); err != nil {
			return err
		}
	}
}

// heldError is what an answer says about the next question.
func heldError(answer error) HeldError {
	var held *HeldError
	if errors.As(answer, &held) {
		return *held
	}
	return HeldError{}
}

func (a *attempt) askAgain() error {
	callerErr := a.w.callerErr()
	a.w.e.mu.Lock()
	defer a.w.e.mu.Unlock()
	return a.w.e.ask(a.w, a.l, callerErr)
}

// unqueue ends the renewals of an acquisition that is not queued any more.
func (e *engine) unqueue(l *lease) {
	if l.phase == queued {
		l.become(asking)
		e.moments.remove(l)
	}
}

// notGranted processes an answer other than a grant. It returns nil when the acquisition goes on.
func (e *engine) notGranted(w *waiter, l *lease, answer error) error {
	held := errors.Is(answer, locker.ErrHeld)
	if !held {
		callerctx.AwaitEnd(w.ctx) // the driver may have noticed the caller's deadline first
	}
	callerErr := w.callerErr()
	// The answer may be the cause of the caller's context. Where that matches ErrHeld, the answer
	// says nothing about the lock.
	held = held && !errors.Is(callerErr, locker.ErrHeld)
	if !held && callerErr == nil { // so the error of a context is not the caller's
		answer = ownLimit(false, answer)
	}
	hasPlace, why := held && errors.Is(answer, ErrQueued), heldError(answer).Why
	silent := !held && errors.Is(answer, locker.ErrNoAnswer)
	e.mu.Lock()
	defer e.mu.Unlock()
	l.removal.silent = silent
	if held && w.isHead() {
		w.q.held, w.q.askedAt, w.q.why = true, Never, why
	}
	if err := e.endIfOver(w, l, callerErr); err != nil {
		return err
	}
	switch {
	case held && w.req.NoWait:
		e.endAcquisition(l)
		return locker.ErrHeld
	case held:
		w.waited = true
		e.noteWaiting(w, 0)
		if !hasPlace {
			e.unqueue(l)
		} else if l.phase == asking {
			l.become(queued)
			e.plan(l, l.validity.nextRenewal(Stamp()))
		}
		return nil
	}
	if w.isHead() {
		w.q.held = false
	}
	e.endAcquisition(l)
	return answer
}

// endIfOver ends an acquisition that can't go on, and returns the reason; nil: it can go on. callerErr
// is the error of the caller's context.
func (e *engine) endIfOver(w *waiter, l *lease, callerErr error) error {
	err := e.endReason(w, l, callerErr) // first, because it judges by what is known of l
	if err != nil {
		e.endAcquisition(l)
	}
	return err
}

// endReason is the error of an acquisition that can't go on; nil: it can.
func (e *engine) endReason(w *waiter, l *lease, callerErr error) error {
	switch {
	case l.cause.closed:
		return locker.ErrClosed
	case callerErr != nil:
		return e.giveUpError(w, callerErr)
	case l.cause.err != nil:
		return w.requeueError(l.cause)
	}
	return nil
}

// requeueError is the error of an acquisition that died before it was a lease. With NoWait there is no
// new acquisition, and the caller must not see ErrLost, because it holds no lease yet.
func (w *waiter) requeueError(why cause) error {
	switch {
	case !w.req.NoWait:
		return &withCause{errRequeue, why.err}
	case why.lost:
		return &verdict.Died{Err: errLostAgain}
	}
	return &verdict.Died{Err: why.err}
}

// requeue is called when the acquisition of w was lost because of cause, and a new one follows.
func (w *waiter) requeue(cause error) {
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	e.noteRequeued(w, cause)
	w.removeEnded()
}

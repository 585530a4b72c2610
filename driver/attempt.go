package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker"
)

// errRequeue says that an acquisition died while it waited, through no fault of the caller: the wait goes on with a
// new one.
var errRequeue = errors.New("acquisition is lost")

// errLostAgain says that a lock was granted and lost before anybody had it.
var errLostAgain = errors.New("the lock was lost again before it was handed out")

// errTooSlow says that a grant came when nothing was left of its validity.
var errTooSlow = errors.New("the service took longer to answer than the lease lasts")

// attempt is one acquisition, from its first request until it is granted or its removal has begun.
func (w *waiter) attempt(l *lease) error {
	e := w.e
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	if err := e.begin(w, l, cancel); err != nil {
		return err
	}
	pause := firstPause
	queuedBefore := false
	for {
		asked := Stamp()
		grant, err := l.lock.Acquire(ctx)
		if err == nil {
			return w.granted(ctx, l, grant)
		}
		if err := e.heard(w, l, err); err != nil {
			return err
		}
		if isQueued(err) { // the next call blocks, or this one should have
			if queuedBefore && Stamp().Sub(asked) < firstPause {
				brief := firstPause
				e.sleep(ctx, &brief)
			}
			queuedBefore = true
			continue
		}
		var held *HeldError
		if errors.As(err, &held) {
			pause = min(pause, max(held.RetryAfter, firstPause)) // whatever a driver says, it must not spin
		}
		e.sleep(ctx, &pause)
		if err := e.asks(w, l); err != nil {
			return err
		}
	}
}

// begin registers l, so that it can be lost and closed, and is removed in the end.
func (e *engine) begin(w *waiter, l *lease, cancel context.CancelCauseFunc) error {
	e.mu.Lock()
	e.leases[l] = struct{}{}
	w.current, l.cancel = l, cancel
	if e.closed {
		l.cause = locker.ErrClosed
	}
	e.mu.Unlock()
	return e.asks(w, l)
}

// asks notes that the next request is going out, unless the acquisition is over.
func (e *engine) asks(w *waiter, l *lease) error {
	over := w.over()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.ended(w, l, over); err != nil {
		return err
	}
	if l.phase == prepared {
		l.become(asking)
	}
	if w.isHead() {
		w.q.asked = Stamp()
	}
	return nil
}

func isQueued(answer error) bool { return errors.Is(answer, ErrQueued) }

// unqueue stops the renewal of an acquisition that is not queued any more.
func (e *engine) unqueue(l *lease) {
	if l.phase == queued {
		l.become(asking)
		e.moments.remove(l)
	}
}

// heard deals with an answer other than a grant. It returns nil when the acquisition goes on.
func (e *engine) heard(w *waiter, l *lease, answer error) error {
	over := w.over()
	e.mu.Lock()
	defer e.mu.Unlock()
	held := errors.Is(answer, locker.ErrHeld)
	if held && w.isHead() {
		w.q.held, w.q.asked = true, Never
	}
	if err := e.ended(w, l, over); err != nil {
		return err
	}
	switch {
	case held && w.req.NoWait:
		e.startRemoval(l)
		return locker.ErrHeld
	case held:
		w.waited = true
		if !isQueued(answer) {
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
	e.startRemoval(l)
	return answer
}

// ended returns the reason for which an acquisition can't go on, if there is one, and begins its removal. over
// is the error of the caller's context.
func (e *engine) ended(w *waiter, l *lease, over error) error {
	switch {
	case errors.Is(l.cause, locker.ErrClosed):
		e.startRemoval(l)
		return locker.ErrClosed
	case over != nil:
		err := e.gaveUp(w, over) // before what is known of l is changed
		e.startRemoval(l)
		return err
	case l.cause != nil:
		e.startRemoval(l)
		return w.requeue(l.cause)
	}
	return nil
}

// granted makes a lease of a grant that is fresh enough. A grant that was queued for long hangs on a refresh of long
// ago, so it is proved anew first. One whose validity is used up is worth nothing: a waiter goes on waiting, and an
// acquisition that took so long without having to wait fails.
func (w *waiter) granted(ctx context.Context, l *lease, g Grant) error {
	e := w.e
	now := Now()
	valid := newValidity(g, now)
	e.mu.Lock()
	waited := w.waited
	e.unqueue(l)
	l.token, l.validity = g.Token, valid
	l.renewal.predatesGrant = l.renewal.running
	e.mu.Unlock()
	var failure error
	switch {
	case g.Token <= 0 || g.TTL < l.req.TTL:
		failure = fmt.Errorf("the driver granted token %d for %v, of %v asked", g.Token, g.TTL, l.req.TTL)
	case valid.isStale(now, w.req.NoRenewal):
		var err error
		if valid, err = e.verifyGrant(ctx, l, valid); err != nil {
			failure = w.stale(waited, err)
		}
		now = Now()
	case now >= valid.expiry():
		failure = w.stale(waited, errTooSlow)
	}

	over := w.over()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.ended(w, l, over); err != nil {
		return err
	}
	if failure != nil || w.left {
		e.startRemoval(l)
		return failure
	}
	if w.q != nil {
		w.q.held = true
	}
	if w.req.MaxHold > 0 {
		valid.limit = now.Add(w.req.MaxHold)
	}
	e.hold(l, valid)
	w.settle(l, nil)
	return nil
}

// stale is what it means that a grant isn't fresh: a waiter goes on waiting, and so does who may wait when the lock was
// lost again already.
func (w *waiter) stale(waited bool, err error) error {
	if waited || errors.Is(err, locker.ErrLost) {
		return w.requeue(err)
	}
	return err
}

// requeue is the end of an acquisition that was lost before it was a lease. ErrLost would be the end of a lease, so
// with NoWait it is not passed on.
func (w *waiter) requeue(cause error) error {
	switch {
	case !w.req.NoWait:
		return fmt.Errorf("%w: %w", errRequeue, cause)
	case errors.Is(cause, locker.ErrLost):
		return errLostAgain
	}
	return cause
}

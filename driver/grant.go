package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker"
)

// errTooSlow says that a grant came when nothing was left of its validity.
var errTooSlow = errors.New("the service took longer to answer than the lease lasts")

// errUnwanted says that a grant was not verified, because nobody wants it any more. No caller sees
// it.
var errUnwanted = errors.New("nobody wants the grant any more")

// granted makes a lease of the grant that has come, or ends the acquisition.
func (a *attempt) granted() error {
	valid, failure := a.examine()
	return a.handOut(valid, failure)
}

// examine returns the validity of the grant, or the reason why it can't be handed out. The grant of
// an acquisition that was queued for long counts from a refresh that was sent long ago, so a
// renewal confirms it first. A grant whose validity is used up is worth nothing.
func (a *attempt) examine() (validity, error) {
	w, l, g, e := a.w, a.l, a.grant, a.w.e
	valid := newValidity(g, a.at)
	e.mu.Lock()
	waited := w.waited
	e.unqueue(l)
	l.token, l.validity, l.grantedAt = g.Token, valid, a.at
	l.renewal.predatesGrant = l.renewal.running
	e.mu.Unlock()
	switch {
	case g.Token <= 0:
		return valid, fmt.Errorf("the driver granted token %d: want one above 0, also with FencingNone", g.Token)
	case g.TTL < l.req.TTL:
		return valid, fmt.Errorf("the driver granted a TTL of %v: want the %v that was asked for, or more", g.TTL, l.req.TTL)
	case valid.isStale(a.at, &w.req):
		valid, err := a.verifyGrant(valid)
		a.at = Now()
		if err != nil {
			return valid, w.grantError(waited, err)
		}
		return valid, nil
	case a.at >= valid.expiry():
		return valid, w.grantError(waited, errTooSlow)
	}
	return valid, nil
}

// grantError is the error of a grant that isn't valid any more. A waiter goes on waiting, and so
// does a caller that may wait when the lock was lost again already. An acquisition that took so
// long without having to wait fails.
func (w *waiter) grantError(waited bool, err error) error {
	if why := newCause(err); waited || why.lost {
		return w.requeueError(why)
	}
	return err
}

// verifyGrant renews a grant until the service has confirmed it and validity is left, or the
// service has said no, or a TTL has passed, or nobody wants it any more (errUnwanted). It returns
// the validity that was confirmed. An answer that comes late counts as well: see answeredLate.
func (a *attempt) verifyGrant(granted validity) (validity, error) {
	ctx, l, e, pause := &a.call, a.l, a.w.e, firstPause
	answered := true
	for until := Now().Add(granted.ttl); ctx.Err() == nil; e.sleep(ctx, &pause, nil) {
		if answered {
			e.mu.Lock()
			a.w.noteAsked()
			e.mu.Unlock()
		}
		var base Instant
		var err error
		call := context.WithoutCancel(ctx)
		e.callRenew(call, l.req.TTL, []*lease{l}, func(_ *lease, newBase Instant, renewErr error) {
			base, err = newBase, renewErr
		})
		answered = err == nil
		now := Now()
		e.mu.Lock()
		if answered {
			l.validity = l.validity.renewed(base, now)
		}
		v := l.validity
		e.mu.Unlock()
		confirmed := answered || v.base > granted.base
		switch {
		case errors.Is(err, locker.ErrLost):
			return v, err
		case confirmed && now < v.expiry():
			return v, nil
		case now >= until:
			return v, errors.Join(errTooSlow, err)
		}
	}
	return granted, errUnwanted
}

// handOut gives the caller a lease of the grant. It ends the acquisition if the grant can't be handed
// out because of failure, or if nobody wants it any more.
func (a *attempt) handOut(valid validity, failure error) error {
	w, l, e := a.w, a.l, a.w.e
	usable := failure == nil || errors.Is(failure, errUnwanted) // as far as anybody knows
	callerErr := w.callerErr()
	e.mu.Lock()
	defer e.mu.Unlock()
	wanted := callerErr == nil && !w.left && l.cause.err == nil
	lost := l.cause.err != nil && !l.cause.closed
	if usable && !wanted && !lost {
		e.noteAbandoned(l)
	}
	if err := e.endIfOver(w, l, callerErr); err != nil {
		return err
	}
	if failure != nil || w.left {
		e.endAcquisition(l)
		return failure
	}
	if w.q != nil {
		w.q.held, w.q.why = true, nil
	}
	valid.base = max(valid.base, l.validity.base) // a late answer may have come since
	if w.req.MaxHold > 0 {
		valid.limit = a.at.Add(w.req.MaxHold)
	}
	e.hold(l, valid, a.at)
	w.decide(l, nil)
	e.noteGranted(w, l)
	return nil
}

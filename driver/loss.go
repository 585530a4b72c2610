package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/verdict"
)

// Errors of drivers and causes of callers' contexts may have methods (Is, As, Unwrap, Error) that
// call the Locker. So none of these is called under the engine's mutex: what an error matches is
// found out before, and it is wrapped without being formatted.

// cause is why an acquisition is lost. A zero cause: it isn't.
type cause struct {
	err    error
	lost   bool // err matches locker.ErrLost
	closed bool // err matches locker.ErrClosed
}

// newCause must not be called under the engine's mutex, except with an error of the engine's own.
func newCause(err error) cause {
	return cause{err, errors.Is(err, locker.ErrLost), errors.Is(err, locker.ErrClosed)}
}

// withCause is an error and its cause, as fmt.Errorf("%w: %w", err, cause) is. But it calls no
// method of either before somebody asks for its text.
type withCause [2]error

func (w *withCause) Error() string   { return w[0].Error() + ": " + w[1].Error() }
func (w *withCause) Unwrap() []error { return w[:] }

// noting is err, with the text of another error at its end. It doesn't match that one.
type noting struct {
	err  error
	note error
}

func (n *noting) Error() string { return n.err.Error() + "; " + n.note.Error() }
func (n *noting) Unwrap() error { return n.err }

// missed is the cause of the loss of a lease at its deadline.
type missed struct {
	text string // what has happened, in addition
	err  error  // the service's last error; nil: there was none
}

func (m *missed) Error() string {
	text := "not renewed before its deadline" + m.text
	if m.err != nil {
		text += ": " + m.err.Error()
	}
	return text
}

func (m *missed) Unwrap() error { return m.err }

// classOfLoss adds to the cause of a loss what locker.LossOf returns for it.
func classOfLoss(why error) *verdict.Loss {
	if loss, ok := why.(*verdict.Loss); ok { //nolint:errorlint // not another lease's, in a driver's error
		return loss
	}
	return &verdict.Loss{Class: locker.LossRevoked, Err: why}
}

// whyNotRenewed is the cause of a lease that missed its deadline. It distinguishes a service that
// fails from a silent one, and both from a process that did not run.
func (l *lease) whyNotRenewed(now Instant) error {
	var class string
	var why missed
	switch r, v := &l.renewal, l.validity; {
	case r.lastErr != nil:
		class, why.err = classOfFailure(r.lastErr), r.lastErr
	case r.running:
		class = locker.LossServiceSilent
		why.text = fmt.Sprintf(": no answer in %v", now.Sub(r.startedAt).Round(time.Millisecond))
	case l.req.NoRenewal && r.byHandErr != nil:
		class, why.err = classOfFailure(r.byHandErr), r.byHandErr
	case l.req.NoRenewal:
		class, why.text = locker.LossNotRenewed, ", by the caller"
	case l.moment < v.expiry(): // a renewal was due before the deadline
		late := now.Sub(l.moment).Round(time.Millisecond)
		class, why.text = locker.LossProcessLate, fmt.Sprintf(": this process was late by %v to ask", late)
	default: // the last answer came when it was too late for another renewal
		class, why.text = locker.LossUnproven, ": the service's answers prove no renewal that is new enough"
	}
	return &verdict.Loss{Class: class, Err: &why}
}

// classOfFailure distinguishes a service that answered a renewal with an error from one that was
// silent until a time limit, of the engine or of the driver, ended the renewal.
func classOfFailure(err error) string {
	if _, ok := err.(*unanswered); ok { //nolint:errorlint // callRenew returns it as it is
		return locker.LossServiceSilent
	}
	return locker.LossServiceFailed
}

// unanswered is the error of a renewal that a time limit has ended.
type unanswered struct{ err error }

func (u *unanswered) Error() string { return u.err.Error() }
func (u *unanswered) Unwrap() error { return u.err }

// markUnanswered returns err as ownLimit does, and as unanswered if a time limit is the reason for it.
// call is the context of the renewal. It must not be called under the engine's mutex.
func markUnanswered(call context.Context, err error) error {
	if err == nil || errors.Is(err, locker.ErrLost) {
		return err
	}
	err = ownLimit(call.Err() != nil, err)
	if errors.Is(err, locker.ErrNoAnswer) {
		return &unanswered{err}
	}
	return err
}

// ownLimit returns err, the error of a call of the driver that ended while its caller still wanted the
// answer. over says that the engine's time limit had passed: then the result matches
// locker.ErrNoAnswer. It never matches the error of a context, which would say that the caller's own
// context is over; its text stays. It must not be called under the engine's mutex.
func ownLimit(over bool, err error) error {
	switch {
	case err == nil:
		return nil
	case err == context.DeadlineExceeded, err == context.Canceled: //nolint:errorlint // with a text that says no more
		return locker.ErrNoAnswer
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &withCause{locker.ErrNoAnswer, &textOnly{err}}
	case over && !errors.Is(err, locker.ErrNoAnswer):
		return &withCause{locker.ErrNoAnswer, err}
	}
	return err
}

// withoutLoss returns err, the answer of a call that can't report a loss. Where err matches
// locker.ErrLost all the same, it is replaced by an error with the same text: a caller must not take
// it for the loss of a lease. It must not be called under the engine's mutex.
func withoutLoss(err error) error {
	if errors.Is(err, locker.ErrLost) {
		return &textOnly{err}
	}
	return err
}

// textOnly has the text of an error, and doesn't match it.
type textOnly struct{ err error }

func (t *textOnly) Error() string { return t.err.Error() }

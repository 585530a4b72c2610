package driver

import (
	"fmt"
	"time"

	"github.com/fencedlock/locker/internal/verdict"
)

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
func classOfLoss(cause error) *verdict.Loss {
	if loss, ok := cause.(*verdict.Loss); ok { //nolint:errorlint // not another lease's, in a driver's error
		return loss
	}
	return &verdict.Loss{Class: "revoked", Err: cause}
}

// whyNotRenewed is the cause of a lease that missed its deadline. It distinguishes a service that
// fails from a silent one, and both from a process that did not run.
func (l *lease) whyNotRenewed(now Instant) error {
	switch r, v := &l.renewal, l.validity; {
	case r.lastErr != nil:
		return &verdict.Loss{Class: "service_failed", Err: &missed{err: r.lastErr}}
	case r.running:
		return &verdict.Loss{Class: "service_silent", Err: &missed{text: fmt.Sprintf(": no answer in %v", now.Sub(r.startedAt).Round(time.Millisecond))}}
	case l.req.NoRenewal:
		return &verdict.Loss{Class: "not_renewed", Err: &missed{text: ", by the caller"}}
	case r.startedAt > v.base:
		return &verdict.Loss{Class: "unproven", Err: &missed{text: ": the service's answers prove no renewal that is new enough"}}
	default:
		late := now.Sub(v.nextRenewal(v.base)).Round(time.Millisecond)
		return &verdict.Loss{Class: "process_late", Err: &missed{text: fmt.Sprintf(": this process was late by %v to ask", late)}}
	}
}

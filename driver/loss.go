package driver

import (
	"fmt"
	"time"
)

// missed is the cause of the loss of a lease at its deadline.
type missed struct {
	loss string // what locker.LossOf returns
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

// Loss is for locker.LossOf.
func (m *missed) Loss() string { return m.loss }

// whyNotRenewed is the cause of a lease that missed its deadline. It distinguishes a service that
// fails from a silent one, and both from a process that did not run.
func (l *lease) whyNotRenewed(now Instant) error {
	switch r, v := &l.renewal, l.validity; {
	case r.lastErr != nil:
		return &missed{loss: "service_failed", err: r.lastErr}
	case r.running:
		return &missed{loss: "service_silent", text: fmt.Sprintf(": no answer in %v", now.Sub(r.startedAt).Round(time.Millisecond))}
	case l.req.NoRenewal:
		return &missed{loss: "not_renewed", text: ", by the caller"}
	case r.startedAt > v.base:
		return &missed{loss: "unproven", text: ": the service's answers prove no renewal that is new enough"}
	default:
		late := now.Sub(v.nextRenewal(v.base)).Round(time.Millisecond)
		return &missed{loss: "process_late", text: fmt.Sprintf(": this process was late by %v to ask", late)}
	}
}

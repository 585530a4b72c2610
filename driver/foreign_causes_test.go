package driver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// A foreign cause of a caller's context, while the caller waits for the first answer, in the
// service's queue, and in the Locker's.
func TestForeignCauseOfAContext(t *testing.T) {
	silent := func(ctx context.Context, _ *fakeLock) (driver.Grant, error) { return driver.Grant{}, hang(ctx) }
	for name, tc := range map[string]struct {
		acquire func(context.Context, *fakeLock) (driver.Grant, error)
		second  bool
		held    bool // the service has said so
	}{
		"no answer":         {silent, false, false},
		"queued":            {queues(nil), false, true},
		"after a head":      {queues(nil), true, true},
		"after one in vain": {silent, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			waiting := func() *fake { return &fake{acquire: tc.acquire} }
			foreign(t, waiting, func(t *testing.T, _ *fake, l locker.Locker, e *foreignError) {
				e.matches = []error{locker.ErrHeld, context.DeadlineExceeded}
				if tc.second {
					start(t, l, "name").waits()
				}
				p := start(t, l, "name")
				p.waits()
				p.cancel(e)
				err := p.failed()
				matches(t, "Acquire", err, context.Canceled, e)
				if got := locker.OutcomeOf(err); got != "canceled" {
					t.Errorf("Outcome = %q", got)
				}

				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, e)
				defer cancel()
				_, err = l.Acquire(ctx, "name")
				matches(t, "Acquire", err, context.DeadlineExceeded, e)
				if got := locker.OutcomeOf(err); (got == "timeout") != tc.held {
					t.Errorf("Outcome = %q", got)
				}
			})
		})
	}
}

// foreignContext is a context with an error of its own.
type foreignContext struct {
	context.Context
	err error
}

func (c foreignContext) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	return c.err
}

func TestForeignErrorOfAContext(t *testing.T) {
	for _, kinds := range [][]error{nil, {context.DeadlineExceeded}} {
		waiting := func() *fake { return &fake{acquire: queues(nil)} }
		foreign(t, waiting, func(t *testing.T, _ *fake, l locker.Locker, e *foreignError) {
			e.matches = kinds
			start(t, l, "name").waits()
			below, cancel := context.WithCancel(t.Context())
			p := startWith(t, foreignContext{below, e}, l, "name") // it queues, and derives no context
			p.waits()
			cancel()
			want := "canceled"
			if len(kinds) > 0 {
				want = "timeout"
			}
			if got := locker.OutcomeOf(p.failed()); got != want {
				t.Errorf("Outcome = %q, want %q", got, want)
			}
		})
	}
}

// A foreign cause that matches everything isn't taken for the engine's own reason to begin again.
func TestForeignCauseThatMatchesEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: queues(nil)}
		l := open(t, f)
		p := start(t, l, "name")
		p.waits()
		p.cancel(anyError{})
		if err := p.failed(); !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire = %v", err)
		}
		time.Sleep(time.Minute)
		if n := len(f.prepared()); n != 1 {
			t.Errorf("%d acquisitions for a caller that has left, want 1", n)
		}
	})
}

// anyError matches everything.
type anyError struct{}

func (anyError) Error() string { return "any" }
func (anyError) Is(error) bool { return true }

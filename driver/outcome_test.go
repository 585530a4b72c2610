package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// strangeErrors are what the cause of a caller's context, or an error of a service, may match.
var strangeErrors = []error{
	locker.ErrHeld, locker.ErrHeldByCaller, locker.ErrClosed, locker.ErrLost, locker.ErrName, locker.ErrOption,
	errors.ErrUnsupported, context.Canceled, context.DeadlineExceeded,
}

// wantOutcome fails the test unless err and the statistics of l say what became of the only call.
func wantOutcome(t *testing.T, l locker.Locker, err error, want string) {
	t.Helper()
	if got := locker.OutcomeOf(err); got != want {
		t.Errorf("OutcomeOf(%v) = %q, want %q", err, got, want)
	}
	if s := statsOf(t, l); s.Refused[want] != 1 || len(s.Refused) != 1 {
		t.Errorf("Refused = %v, want one %s", s.Refused, want)
	}
}

// What a caller gives as the cause has no effect on the outcome.
func TestOutcomeWhateverTheCause(t *testing.T) {
	silent := func(ctx context.Context, _ *fakeLock) (driver.Grant, error) {
		<-ctx.Done()
		return driver.Grant{}, context.Cause(ctx)
	}
	for _, cause := range strangeErrors {
		for _, tc := range []struct {
			name    string
			acquire func(context.Context, *fakeLock) (driver.Grant, error)
			times   bool // the caller's time runs out
			want    string
		}{
			{"held, cancelled", queues(nil), false, "canceled"},
			{"held, timed out", queues(nil), true, "timeout"},
			{"silent, cancelled", silent, false, "canceled"},
			{"silent, timed out", silent, true, "error"},
		} {
			t.Run(fmt.Sprint(cause, "/", tc.name), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					l := open(t, &fake{acquire: tc.acquire})
					watch(t, l)
					wrapped := fmt.Errorf("of the group: %w", cause)
					ctx, cancel := context.WithCancelCause(callerContext(t))
					defer cancel(nil)
					if tc.times {
						var stop context.CancelFunc
						ctx, stop = context.WithTimeoutCause(ctx, time.Second, wrapped)
						defer stop()
					} else {
						time.AfterFunc(time.Second, func() { cancel(wrapped) })
					}
					_, err := l.Acquire(ctx, "name")
					matches(t, "Acquire", err, cause)
					wantOutcome(t, l, err, tc.want)
					_, err = l.Acquire(ctx, "name") // a context that has ended
					if want := map[bool]string{false: "canceled", true: "error"}[tc.times]; locker.OutcomeOf(err) != want {
						t.Errorf("at once: OutcomeOf(%v) = %q, want %q", err, locker.OutcomeOf(err), want)
					}
				})
			})
		}
	}
}

// A service may fail with an error that looks like a caller that gave up, or like another Locker's.
func TestOutcomeOfAServiceThatFails(t *testing.T) {
	for failure, want := range map[error]error{ // an error of a context would say that the caller's is over
		context.Canceled:         locker.ErrNoAnswer,
		context.DeadlineExceeded: locker.ErrNoAnswer,
		locker.ErrClosed:         locker.ErrClosed,
		errService:               errService,
	} {
		for _, opts := range [][]locker.Option{nil, {locker.NoWait()}} {
			t.Run(fmt.Sprint(failure, len(opts)), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					l := open(t, &fake{acquire: func(context.Context, *fakeLock) (driver.Grant, error) {
						return driver.Grant{}, fmt.Errorf("connection: %w", failure)
					}})
					_, err := l.Acquire(callerContext(t), "name", opts...)
					matches(t, "Acquire", err, want)
					if !errors.Is(failure, want) {
						matchesNone(t, "Acquire", err, failure)
					}
					if want := "connection: " + failure.Error(); !strings.Contains(err.Error(), want) {
						t.Errorf("Acquire = %v, want in it %q", err, want)
					}
					wantOutcome(t, l, err, "error")
				})
			})
		}
	}
}

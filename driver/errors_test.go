package driver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Every error says what was tried, where, and on which lock, once.
func TestErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{leaves: true}
		f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			if l.req.Name == "refused" {
				return driver.Grant{}, errService
			}
			return grant(l), nil
		}
		f.renew = func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService }
		f.release = func(_ context.Context, l *fakeLock) error {
			if l.count(&l.releases) == 1 {
				return errService
			}
			return nil
		}
		f.shut = func(context.Context) error { return errService }
		l := open(t, f)
		cancelled, cancel := context.WithCancelCause(callerContext(t))
		cancel(errCause)

		_, err := l.Acquire(t.Context(), "\x00")
		says(t, err, "acquire", "\x00", locker.ErrName)
		_, err = l.Acquire(cancelled, "name")
		says(t, err, "acquire", "name", context.Canceled, errCause)
		_, err = l.Acquire(t.Context(), "refused")
		says(t, err, "acquire", "refused", errService)

		lease := mustAcquire(t, l, "name")
		says(t, lease.Renew(cancelled), "renew", "name", context.Canceled, errCause)
		says(t, lease.Renew(callerContext(t)), "renew", "name", errService)
		says(t, lease.Release(t.Context()), "release", "name", errService)
		says(t, lease.Err(), "lease", "name", locker.ErrReleased)
		says(t, lease.Renew(callerContext(t)), "lease", "name", locker.ErrReleased)

		lease = mustAcquire(t, l, "name")
		f.tell(len(f.prepared())-1, errRevoked)
		for _, err := range []error{lease.Err(), lease.Renew(callerContext(t)), lease.Release(t.Context())} {
			says(t, err, "lease", "name", locker.ErrLost, errRevoked)
		}

		says(t, l.Close(), "close", "", errService)
		_, err = l.Acquire(t.Context(), "name")
		says(t, err, "acquire", "name", locker.ErrClosed)
	})
}

func says(t *testing.T, err error, op, name string, causes ...error) {
	t.Helper()
	var e *locker.Error
	if !errors.As(err, &e) {
		t.Errorf("%v is no *locker.Error", err)
		return
	}
	if e.Op != op || e.Name != name || e.Backend != "fake" {
		t.Errorf("%v has Op %q, Name %q, Backend %q, want %q, %q, %q", err, e.Op, e.Name, e.Backend, op, name, "fake")
	}
	var again *locker.Error
	if errors.As(e.Err, &again) {
		t.Errorf("%v is wrapped twice", err)
	}
	matches(t, op, err, causes...)
}

func TestHeld(t *testing.T) {
	for _, err := range []error{driver.ErrQueued, &driver.HeldError{AskWithin: time.Second}} {
		matches(t, "Held", err, locker.ErrHeld)
		matchesNone(t, "Held", err, locker.ErrLost, context.DeadlineExceeded)
		if err.Error() == "" {
			t.Error("Held has no text")
		}
	}
	if a, b := (driver.ErrQueued).Error(), (&driver.HeldError{AskWithin: time.Second}).Error(); a == b {
		t.Errorf("both are %q, want the second to tell when to ask again", a)
	}
	err := &driver.PartialReleaseError{Err: errService}
	matches(t, "Remains", err, errService)
	if !strings.Contains(err.Error(), errService.Error()) {
		t.Errorf("Remains = %v, want it to name the cause", err)
	}
}

func TestNewOwner(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		id := driver.NewOwner()
		if len(id) != 32 || seen[id] {
			t.Fatalf("%q is not 128 bits in hexadecimal, or not new", id)
		}
		seen[id] = true
	}
}

// The text of a context's error names the cause, once.
func TestTheTextOfAContextsError(t *testing.T) {
	for _, tc := range []struct {
		cause error
		want  string
	}{
		{nil, "context canceled"},
		{errCause, "context canceled: the user went away"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(tc.cause)
		if got := driver.ContextError(ctx).Error(); got != tc.want {
			t.Errorf("the error of a context with the cause %v is %q, want %q", tc.cause, got, tc.want)
		}
	}
}

package driver_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker/driver"
)

// Close doesn't wait for remains that keep nobody out, and doesn't report them.
func TestCloseDoesNotWaitForRemains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{leaves: true, release: func(context.Context, *fakeLock) error {
			return &driver.PartialReleaseError{Err: errService}
		}}
		l := open(t, f)
		released := mustAcquire(t, l, "released")
		if err := released.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		mustAcquire(t, l, "held")
		if err := closesWithin(t, l, 0); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// The same where the call that Close makes confirms nothing, and an earlier one has said that the lock is
// free.
func TestCloseDoesNotWaitForRemainsThatFail(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var calls atomic.Int32
		f := &fake{leaves: true, release: func(context.Context, *fakeLock) error {
			if calls.Add(1) == 1 {
				return &driver.PartialReleaseError{Err: errService}
			}
			return errService
		}}
		l := open(t, f)
		if err := mustAcquire(t, l, "released").Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		if err := closesWithin(t, l, 0); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// Close doesn't wait for the pause before the next try of a removal.
func TestCloseTriesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var healed atomic.Bool
		f := &fake{release: func(context.Context, *fakeLock) error {
			if healed.Load() {
				return nil
			}
			return errService
		}}
		l := open(t, f)
		matches(t, "Release", mustAcquire(t, l, "name").Release(t.Context()), errService)
		time.Sleep(time.Minute) // the pauses have grown to five seconds
		healed.Store(true)
		if err := closesWithin(t, l, 0); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// What a driver says when its time is up is reported where nothing else is known.
func TestCloseNamesTheErrorOfATimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{leaves: true, release: func(ctx context.Context, _ *fakeLock) error {
			<-ctx.Done()
			return errService
		}}
		l := open(t, f)
		mustAcquire(t, l, "name")
		matches(t, "Close", l.Close(), errService)
	})
}

// What the driver's Close breaks off is left as well, and doesn't hide why something else is.
func TestCloseNamesTheReasonThatItKnows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		broken := make(chan struct{})
		f := &fake{leaves: true}
		f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			if l.req.Name == "a" {
				return grant(l), nil
			}
			<-broken // ignores its context
			return driver.Grant{}, errRevoked
		}
		f.release = func(context.Context, *fakeLock) error { return errService }
		f.shut = func(context.Context) error { close(broken); return nil }
		l := open(t, f)
		mustAcquire(t, l, "a")
		start(t, l, "b").waits()
		err := l.Close()
		matches(t, "Close", err, errService)
		if !strings.Contains(err.Error(), "2 leases") {
			t.Errorf("Close = %v, want it to say that 2 leases are left", err)
		}
	})
}

package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// errLooksLost is a driver's error that matches ErrLost where no loss is reported.
var errLooksLost = fmt.Errorf("no such key: %w", locker.ErrLost)

func hasText(t *testing.T, what string, err error) {
	t.Helper()
	if !strings.Contains(err.Error(), errLooksLost.Error()) {
		t.Errorf("%s = %v, want it to say %v", what, err, errLooksLost)
	}
}

// A Release that fails is no loss, whatever its error matches.
func TestAFailedReleaseIsNoLoss(t *testing.T) {
	for _, obeys := range []bool{false, true} {
		run := bubble
		if obeys {
			run = obeyingBubble
		}
		run(t, func(t *testing.T) {
			fails := true
			l := open(t, &fake{release: func(context.Context, *fakeLock) error {
				if fails {
					return errLooksLost
				}
				return nil
			}})
			w := watch(t, l)
			lease := mustAcquire(t, l, "name")
			err := lease.Release(callerContext(t))
			if err == nil || errors.Is(err, locker.ErrLost) || locker.LossOf(err) != "" {
				t.Errorf("Release = %v, want an error that doesn't match ErrLost", err)
			}
			hasText(t, "Release", err)
			for _, event := range w.take() {
				if errors.Is(event.Cause, locker.ErrLost) {
					t.Errorf("%v has the cause %v, which matches ErrLost", event.Kind, event.Cause)
				}
			}
			fails = false
			if err := lease.Release(callerContext(t)); err != nil {
				t.Errorf("the next Release = %v, want nil", err)
			}
		})
	}
}

// After such an error the lock is free if it is a partial one.
func TestAPartialReleaseThatLooksLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		calls := 0
		l := open(t, &fake{release: func(context.Context, *fakeLock) error {
			if calls++; calls == 1 {
				return &driver.PartialReleaseError{Err: errLooksLost}
			}
			return nil
		}})
		if err := mustAcquire(t, l, "name").Release(callerContext(t)); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
	})
}

// A caller without a lease can't have lost one.
func TestAnAcquireThatFailsIsNoLoss(t *testing.T) {
	for _, opts := range [][]locker.Option{nil, {locker.NoWait()}} {
		bubble(t, func(t *testing.T) {
			l := open(t, &fake{acquire: func(context.Context, *fakeLock) (driver.Grant, error) { return driver.Grant{}, errLooksLost }})
			watch(t, l)
			_, err := l.Acquire(callerContext(t), "name", opts...)
			if err == nil || errors.Is(err, locker.ErrLost) {
				t.Errorf("Acquire = %v, want an error that doesn't match ErrLost", err)
			}
			hasText(t, "Acquire", err)
			wantOutcome(t, l, err, "error")
		})
	}
}

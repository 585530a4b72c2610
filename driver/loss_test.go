package driver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// lossyError is a driver's error with a method that once was asked for the class of a loss.
type lossyError struct{ says func() string }

func (lossyError) Error() string  { return "lossy" }
func (l lossyError) Loss() string { return l.says() }

// The class of a loss is the engine's to say: a driver's error can neither invent one nor claim one.
func TestLossOfADriversError(t *testing.T) {
	for name, says := range map[string]func() string{
		"invents": func() string { return "user 7" },
		"panics":  func() string { panic("of a driver's error") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{}
				l := open(t, f)
				lease := mustAcquire(t, l, "name")
				f.tell(0, fmt.Errorf("session: %w", lossyError{says}))
				if got := locker.LossOf(lease.Err()); got != "revoked" {
					t.Errorf("LossOf = %q, want revoked", got)
				}
				if s := statsOf(t, l); s.Lost["revoked"] != 1 || len(s.Lost) != 1 || s.Held != 0 {
					t.Errorf("Stats = %+v", s)
				}
				_ = lease.Release(t.Context())
			})
		})
	}
}

// The errors of the service may match anything. What they match is not the class of the loss.
func TestLossWhereTheServiceSaysMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) {
			return 0, fmt.Errorf("dial: %w", locker.ErrMaxHold)
		}}
		l := open(t, f)
		lease := mustAcquire(t, l, "name")
		<-lease.Done()
		if got := locker.LossOf(lease.Err()); got != "service_failed" {
			t.Errorf("LossOf = %q, want service_failed", got)
		}
		lease = mustAcquire(t, l, "other")
		f.tell(1, locker.ErrMaxHold)
		if got := locker.LossOf(lease.Err()); got != "revoked" {
			t.Errorf("LossOf = %q, want revoked", got)
		}
	})
}

// A driver around another Locker passes on why that has lost its lease.
func TestLossOfALossBelow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		below := mustAcquire(t, l, "name", locker.WithMaxHold(1))
		<-below.Done()
		lease := mustAcquire(t, l, "other")
		f.tell(1, below.Err())
		if got := locker.LossOf(lease.Err()); got != "revoked" {
			t.Errorf("LossOf = %q, want revoked", got)
		}
	})
}

package driver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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

// An observer of metrics asks for the class of each loss.
func TestLossOfAllocatesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		lease := mustAcquire(t, open(t, f), "name")
		f.tell(0, errService)
		err := lease.Err()
		if n := testing.AllocsPerRun(100, func() { _ = locker.LossOf(err) }); n > 0 {
			t.Errorf("LossOf(%v): %v allocations, want none", err, n)
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

// A service is silent also where a time limit has ended the last renewal: the engine's, or one of the
// driver's own.
func TestLossByASilentService(t *testing.T) {
	for name, tc := range map[string]struct {
		renew func(ctx context.Context, before int) error
		want  string
	}{
		"the engine's limit":     {func(ctx context.Context, _ int) error { return hang(ctx) }, "service_silent"},
		"the driver's own limit": {func(context.Context, int) error { return fmt.Errorf("renew: %w", locker.ErrNoAnswer) }, "service_silent"},
		"a context's error":      {func(context.Context, int) error { return fmt.Errorf("dial: %w", context.DeadlineExceeded) }, "service_silent"},
		"silent at last": {func(ctx context.Context, before int) error {
			if before < 2 {
				return errService
			}
			return hang(ctx)
		}, "service_silent"},
		"silent at first": {func(ctx context.Context, before int) error {
			if before == 0 {
				return hang(ctx)
			}
			return errService
		}, "service_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				renewals := 0
				l := open(t, &fake{renew: func(ctx context.Context, _ *fakeLock) (driver.Instant, error) {
					renewals++
					return 0, tc.renew(ctx, renewals-1)
				}})
				lease := mustAcquire(t, l, "name")
				<-lease.Done()
				if got := locker.LossOf(lease.Err()); got != tc.want {
					t.Errorf("LossOf(%v) = %q, want %q", lease.Err(), got, tc.want)
				}
			})
		})
	}
}

// A holder that renews by hand, in vain, is not to blame.
func TestLossOfALeaseThatItsHolderRenews(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []error
		want    string
	}{
		"the service fails":        {[]error{errService}, "service_failed"},
		"the service is silent":    {[]error{locker.ErrNoAnswer}, "service_silent"},
		"the last one succeeded":   {[]error{errService, nil}, "not_renewed"},
		"the last one has failed":  {[]error{nil, errService}, "service_failed"},
		"the holder never renewed": {nil, "not_renewed"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := 0
				l := open(t, &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) {
					n++
					return driver.Stamp(), tc.answers[n-1]
				}})
				lease := mustAcquire(t, l, "name", locker.WithoutRenewal())
				for _, answer := range tc.answers {
					time.Sleep(time.Second)
					if err := lease.Renew(callerContext(t)); !errors.Is(err, answer) {
						t.Errorf("Renew = %v, want %v", err, answer)
					}
				}
				<-lease.Done()
				if got := locker.LossOf(lease.Err()); got != tc.want {
					t.Errorf("LossOf(%v) = %q, want %q", lease.Err(), got, tc.want)
				}
			})
		})
	}
}

// The bases of a shared session are older than the renewals that report them. A process that is late
// to ask again is late all the same.
func TestLossOfALateProcessWithOlderBases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) {
			return driver.Stamp().Add(-time.Second), nil
		}}
		lease := mustAcquire(t, open(t, f), "name")
		time.Sleep(ttl)
		if err := lease.Err(); err != nil {
			t.Fatalf("Err = %v, want it renewed", err)
		}
		driver.Suspend(ttl)
		if got := locker.LossOf(lease.Err()); got != "process_late" {
			t.Errorf("LossOf(%v) = %q, want process_late", lease.Err(), got)
		}
	})
}

// A process that sleeps beyond the end of its lease has lost it then, and not at its longest hold, which
// came later.
func TestLossBeforeTheLongestHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, tc := range []struct {
			hold time.Duration
			want string
		}{{ttl / 2, "max_hold"}, {3 * ttl, "process_late"}} {
			lease := mustAcquire(t, open(t, &fake{}), "name", locker.WithMaxHold(tc.hold))
			driver.Suspend(4 * ttl)
			err := lease.Err()
			if got := locker.LossOf(err); got != tc.want || errors.Is(err, locker.ErrMaxHold) != (tc.want == "max_hold") {
				t.Errorf("after 4 TTLs, with a longest hold of %v: LossOf(%v) = %q, want %q", tc.hold, err, got, tc.want)
			}
		}
	})
}

// A service whose answer comes after the deadline was silent until then, also where the timer has
// not noticed that before.
func TestLossByAnAnswerAfterTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) {
			sent := driver.Stamp()
			driver.Suspend(ttl) // no timer runs
			return sent, nil
		}}
		lease := mustAcquire(t, open(t, f), "name")
		<-lease.Done()
		if got := locker.LossOf(lease.Err()); got != "service_silent" {
			t.Errorf("LossOf(%v) = %q, want service_silent", lease.Err(), got)
		}
	})
}

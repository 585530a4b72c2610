package driver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestRenewExtendsTheDeadline(t *testing.T) {
	for _, opts := range [][]locker.Option{nil, {locker.WithoutRenewal()}} {
		bubble(t, func(t *testing.T) {
			f := &fake{}
			lease := mustAcquire(t, open(t, f), "name", opts...)
			time.Sleep(time.Second)
			if err := lease.Renew(callerContext(t)); err != nil {
				t.Fatalf("Renew = %v", err)
			}
			if d := time.Until(lease.Deadline()); d != validity {
				t.Errorf("Deadline is %v from now, want %v", d, validity)
			}
			if len(opts) > 0 {
				matches(t, "Err", endsAt(t, lease, time.Now(), validity), locker.ErrLost)
				if n := len(f.renewed()); n != 1 {
					t.Errorf("%d renewals, want none but the caller's", n)
				}
			}
		})
	}
}

// A Base that is older than the known one changes nothing: answers may overtake each other.
func TestTheDeadlineNeverMovesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) {
			return driver.Stamp().Add(-time.Hour), nil
		}}
		l := open(t, f)
		began := time.Now()
		lease := mustAcquire(t, l, "name")
		time.Sleep(time.Second)
		if err := lease.Renew(callerContext(t)); err != nil {
			t.Fatalf("Renew = %v", err)
		}
		if d := lease.Deadline().Sub(began); d != validity {
			t.Errorf("Deadline is %v after the grant, want %v as before", d, validity)
		}
		matches(t, "Err", endsAt(t, lease, began, validity), locker.ErrLost)
		if n := len(f.renewed()); n > 25 {
			t.Errorf("%d renewals in one TTL", n)
		}
	})
}

func TestRenewOfALeaseThatHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		released := mustAcquire(t, l, "released")
		expired := mustAcquire(t, l, "expired", locker.WithoutRenewal())
		if err := released.Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
		time.Sleep(validity)
		matches(t, "Renew", released.Renew(callerContext(t)), locker.ErrReleased)
		matches(t, "Renew", expired.Renew(callerContext(t)), locker.ErrLost)
		if n := len(f.renewed()); n > 0 {
			t.Errorf("%d renewals, want none", n)
		}
	})
}

// When a lease ends between Renew's first check and its request, Renew returns the lease's error.
func TestRenewDuringClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		lease := mustAcquire(t, l, "name")
		err := lease.Renew(&looked{callerContext(t), func() { l.Close() }})
		matches(t, "Renew", err, locker.ErrReleased, locker.ErrClosed)
	})
}

func TestTheContextOfRenewCoversTheCallAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(ctx context.Context, l *fakeLock) (driver.Instant, error) {
			if ctx.Value(byCaller{}) != nil {
				time.Sleep(time.Second) // ignores its context
			}
			return driver.Stamp(), nil
		}}
		lease := mustAcquire(t, open(t, f), "name")
		ctx, cancel := context.WithCancelCause(callerContext(t))
		time.AfterFunc(time.Millisecond, func() { cancel(errCause) })
		began := time.Now()
		err := lease.Renew(ctx)
		if d := time.Since(began); d != time.Millisecond {
			t.Errorf("Renew returned after %v, want a millisecond", d)
		}
		matches(t, "Renew", err, context.Canceled, errCause)
		matchesNone(t, "Renew", err, locker.ErrLost)
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v", err)
		}
		matches(t, "Renew", lease.Renew(ctx), context.Canceled, errCause)
		synctest.Wait()
		if n := len(f.renewed()); n != 1 {
			t.Errorf("%d renewals, want none with a context that is over before the call", n)
		}
		time.Sleep(10 * ttl)
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v", err)
		}
	})
}

func TestRenewThatIsNotConfirmed(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   error
		match error
	}{
		{"refused", errService, errService},
		{"not reported", errSilent, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) { return 0, tc.err }}
				lease := mustAcquire(t, open(t, f), "name")
				err := lease.Renew(callerContext(t))
				if err == nil {
					t.Fatal("Renew = nil")
				}
				if tc.match != nil {
					matches(t, "Renew", err, tc.match)
				}
				matchesNone(t, "Renew", err, locker.ErrLost, locker.ErrReleased)
				if err := lease.Err(); err != nil {
					t.Errorf("Err = %v, want it held", err)
				}
			})
		})
	}
}

func TestRenewReturnsWhenTheLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) {
			<-gate // ignores its context
			return driver.Stamp(), nil
		}}
		lease := mustAcquire(t, open(t, f), "name")
		began := time.Now()
		time.AfterFunc(time.Second, func() { f.tell(0, errRevoked) })
		matches(t, "Renew", lease.Renew(callerContext(t)), locker.ErrLost)
		if d := time.Since(began); d != time.Second {
			t.Errorf("Renew returned after %v, want the loss", d)
		}
		close(gate)
		synctest.Wait()
		matches(t, "Err", lease.Err(), locker.ErrLost) // the answer came too late
	})
}

// A caller's renewal neither waits for one in the background nor stops it.
func TestRenewDuringARenewalInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		f := &fake{renew: func(ctx context.Context, l *fakeLock) (driver.Instant, error) {
			base := driver.Stamp()
			if ctx.Value(byCaller{}) == nil {
				<-gate
			}
			return base, nil
		}}
		lease := mustAcquire(t, open(t, f), "name")
		for range 5 { // the one in the background has no answer all the time
			time.Sleep(ttl / 2)
			if err := lease.Renew(callerContext(t)); err != nil {
				t.Fatalf("Renew = %v", err)
			}
			if d := time.Until(lease.Deadline()); d != validity {
				t.Fatalf("Deadline is %v from now, want %v", d, validity)
			}
		}
		deadline := lease.Deadline()
		close(gate)
		synctest.Wait()
		if d := lease.Deadline(); !d.Equal(deadline) {
			t.Errorf("the late answer to an old request moved the deadline by %v", d.Sub(deadline))
		}
		time.Sleep(10 * ttl)
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v, want it to be renewed in the background again", err)
		}
	})
}

// Callers whose own renewals fail don't delay the one in the background.
func TestFailedCallersDoNotDelayTheRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(ctx context.Context, _ *fakeLock) (driver.Instant, error) {
			if ctx.Value(byCaller{}) != nil {
				return 0, errService
			}
			return driver.Stamp(), nil
		}}
		lease := mustAcquire(t, open(t, f), "name")
		for began := time.Now(); time.Since(began) < 3*ttl; time.Sleep(ttl / 50) {
			matches(t, "Renew", lease.Renew(callerContext(t)), errService)
			if lease.Err() != nil {
				t.Fatalf("Err = %v, want it to be renewed as ever", lease.Err())
			}
		}
	})
}

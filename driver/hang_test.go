package driver_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// late is how long after the end of its context the engine waits for a driver's own error.
const late = 100 * time.Millisecond

// A driver that ignores its context, as a file system that hangs does, keeps no caller.
func TestCallsOfADriverThatHangs(t *testing.T) {
	for what, call := range own(func(context.Context) error { time.Sleep(6 * time.Second); return nil }) {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) { // also with ObeysContext, which says nothing of these calls
				began := time.Now()
				err := call(t.Context(), t)
				matches(t, what, err, locker.ErrNoAnswer)
				matchesNone(t, what, err, context.DeadlineExceeded, context.Canceled, locker.ErrLost)
				wantTook(t, began, 5*time.Second+late)
			})
		})
	}
}

func TestTheCallerLeavesADriverThatHangs(t *testing.T) {
	for what, call := range own(func(context.Context) error { time.Sleep(6 * time.Second); return nil }) {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				matches(t, what, call(ctx, t), locker.ErrNoAnswer, context.DeadlineExceeded)
				if took := time.Since(began); took > time.Second+late {
					t.Errorf("it took %v, want the caller's second", took)
				}
			})
		})
	}
}

// Callers that ask again and again don't fill the process with calls that hang.
func TestFewCallsAreUnderWay(t *testing.T) {
	const atOnce, callers = 1000, 3000
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		healed := make(chan struct{})
		l := driver.New(asked{answer: func(context.Context) error {
			calls.Add(1)
			<-healed
			return nil
		}}, driver.Config{})
		ask := func() error {
			_, err := locker.CurrentToken(t.Context(), l, "a", 0)
			return err
		}
		var all sync.WaitGroup
		for range callers {
			all.Go(func() { matches(t, "CurrentToken", ask(), locker.ErrNoAnswer) })
		}
		all.Wait()
		if n := calls.Load(); n != atOnce {
			t.Errorf("%d calls are under way, want %d", n, atOnce)
		}
		close(healed)
		for range callers { // of which some wait for others
			all.Go(func() {
				if err := ask(); err != nil {
					t.Errorf("CurrentToken of a driver that answers again = %v", err)
				}
			})
		}
		all.Wait()
		l.Close()
	})
}

// A renewal that hangs leaves time for another one.
func TestARenewalThatHangsEndsBeforeTheLease(t *testing.T) {
	ignoringBubble(t, func(t *testing.T) {
		f := &fake{}
		f.renew = func(ctx context.Context, l *fakeLock) (driver.Instant, error) {
			if ctx.Value(byCaller{}) != nil && l.count(&l.renews) == 1 {
				time.Sleep(6 * time.Second)
			}
			return driver.Stamp(), nil
		}
		lease := mustAcquire(t, open(t, f), "name")
		began := time.Now()
		matches(t, "Renew", lease.Renew(callerContext(t)), locker.ErrNoAnswer)
		wantTook(t, began, ttl/4+late)
		if err := lease.Renew(callerContext(t)); err != nil {
			t.Errorf("the next Renew = %v", err)
		}
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v", err)
		}
	})
}

// A call that hangs for longer than Close waits must not use the driver after it was closed.
func TestNoAcquisitionBeginsOnAClosedDriver(t *testing.T) {
	ignoringBubble(t, func(t *testing.T) {
		f := &fake{leaves: true, acquire: func(context.Context, *fakeLock) (driver.Grant, error) {
			time.Sleep(time.Hour)
			return driver.Grant{}, errService
		}}
		l := open(t, f)
		p := start(t, l, "name")
		p.waits()
		f.tell(0, errRevoked)
		if err := l.Close(); err == nil {
			t.Error("Close = nil, with a call that hangs")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n := len(f.prepared()); n != 1 {
			t.Errorf("%d acquisitions, want none after Close", n-1)
		}
	})
}

func wantTook(t *testing.T, began time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(began); took != want {
		t.Errorf("it took %v, want %v", took, want)
	}
}

package driver_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestErrSeesASuspensionBeforeAnyTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		lease := mustAcquire(t, open(t, f), "name")
		driver.Suspend(time.Hour)
		err := lease.Err()
		matches(t, "Err", err, locker.ErrLost)
		if want := "this process was late by "; !strings.Contains(err.Error(), want) {
			t.Errorf("Err = %q, want in it %q", err, want)
		}
		select {
		case <-lease.Done():
		default:
			t.Error("Done is open though Err has said that the lease is lost")
		}
		if d := time.Until(lease.Deadline()); d > -time.Hour+ttl {
			t.Errorf("Deadline is %v from now, want it an hour ago less the TTL", d)
		}
	})
}

func TestDoneClosesWithinASecondOfWaking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		lease := mustAcquire(t, open(t, f), "name")
		time.Sleep(100 * time.Millisecond) // in the middle of one of the timer's steps
		woke := time.Now()
		driver.Suspend(time.Hour)
		<-lease.Done()
		if took := time.Since(woke); took > time.Second {
			t.Errorf("Done closed %v after waking, want 1s at most", took)
		}
		matches(t, "Err", lease.Err(), locker.ErrLost)
		synctest.Wait()
		if n := f.lock(0).count(&f.lock(0).renews); n > 0 {
			t.Errorf("a lease that is past its deadline was renewed %d times", n)
		}
	})
}

func TestAShortSuspensionCostsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		lease := mustAcquire(t, open(t, f), "name")
		for range 20 {
			time.Sleep(500 * time.Millisecond)
			driver.Suspend(ttl / 2)
			if err := lease.Err(); err != nil {
				t.Fatalf("Err after a suspension of half the TTL = %v", err)
			}
			time.Sleep(time.Second) // renewed by then
		}
	})
}

func TestALeaseThatIsTakenAfterASuspensionIsRenewedInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		mustAcquire(t, l, "long", locker.WithTTL(time.Hour)) // keeps the timer going, in steps of a second
		time.Sleep(10 * time.Millisecond)
		driver.Suspend(10 * time.Second)
		short := mustAcquire(t, l, "short", locker.WithTTL(300*time.Millisecond))
		time.Sleep(2 * time.Second)
		if err := short.Err(); err != nil {
			t.Errorf("Err = %v, want the lease to be renewed as ever", err)
		}
	})
}

func TestStampsAreNeverLaterThanTheTruth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		before := driver.Now()
		driver.Suspend(time.Minute)
		if now := driver.Stamp(); now.Sub(before) != 0 {
			t.Errorf("Now moved by %v in a suspension that nobody has looked up", now.Sub(before))
		}
		if exact := driver.Now(); exact.Sub(before) != time.Minute {
			t.Errorf("Exact moved by %v in a suspension of a minute", exact.Sub(before))
		}
		if now := driver.Stamp(); now.Sub(before) != time.Minute {
			t.Errorf("Now moved by %v once the suspension was known, want a minute", now.Sub(before))
		}
		time.Sleep(time.Second)
		if now := driver.Stamp(); now.Sub(before) != time.Minute+time.Second {
			t.Errorf("Now moved by %v in a minute and a second", now.Sub(before))
		}
	})
}

// A request that is stamped right after waking, before the suspension is known, must not make a
// deadline later.
func TestAGrantThatIsStampedRightAfterWaking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService }}
		l := open(t, f)
		driver.Suspend(time.Second) // not known yet when the request is stamped
		began := time.Now()
		lease := mustAcquire(t, l, "name")
		matches(t, "Err", endsAt(t, lease, began, validity-time.Second), locker.ErrLost)
	})
}

// A waiter whose context is another lease's: Err of that context calls the lease's Err, which takes
// the engine's mutex.
func TestAcquireUnderAnotherLeasesContext(t *testing.T) {
	answer := make(chan struct{})
	f := &fake{}
	f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
		if l.req.Name == "inner" {
			<-answer
			return driver.Grant{}, &driver.HeldError{AskWithin: time.Minute}
		}
		return grant(l), nil
	}
	l := open(t, f)
	outer := mustAcquire(t, l, "outer")
	ctx, cancel := locker.WithLease(t.Context(), outer)
	defer cancel()
	p := startWith(t, ctx, l, "inner")
	for len(f.prepared()) < 2 || f.lock(1).count(&f.lock(1).acquires) == 0 {
		time.Sleep(time.Millisecond)
	}
	driver.Suspend(time.Hour) // the outer lease is lost, and no timer has run
	close(answer)
	select {
	case <-p.done:
		matches(t, "Acquire", p.err, context.Canceled, locker.ErrLost)
	case <-time.After(10 * time.Second):
		panic("the engine is deadlocked: it asked a caller's context under its mutex") // Close would never return either
	}
}

// A wait that ends because the other lease was lost was cancelled: it did not run out of time,
// whatever the cause of that loss says.
func TestAcquireUnderALeaseThatWasLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(ctx context.Context, _ *fakeLock) (driver.Instant, error) { return 0, hang(ctx) }}
		f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			if l.req.Name == "inner" {
				return driver.Grant{}, &driver.HeldError{AskWithin: time.Minute}
			}
			return grant(l), nil
		}
		l := open(t, f)
		outer := mustAcquire(t, l, "outer")
		ctx, cancel := locker.WithLease(t.Context(), outer)
		defer cancel()
		err := startWith(t, ctx, l, "inner").failed()
		matches(t, "Acquire", err, context.Canceled, locker.ErrLost)
		matchesNone(t, "Acquire", err, locker.ErrHeld)
	})
}

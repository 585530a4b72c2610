package driver_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// The tests of this file are about drivers that declare that they obey contexts, and about what
// remains true when such a driver panics or doesn't do what it has declared. All that holds for
// every driver is tested with both kinds; see bubble.

// obeyingBubble is a bubble in which drivers declare that they obey contexts.
func obeyingBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	obeysContext = true
	defer func() { obeysContext = false }()
	synctest.Test(t, test)
}

// recovered makes a call, and returns what it panics with.
func recovered(call func()) (reason error) {
	defer func() { reason, _ = recover().(error) }()
	call()
	return nil
}

// A caller may recover from a panic of the driver: the panic comes on its own goroutine. What the
// acquisition has left is removed, and neither the next caller nor Close waits for it.
func TestADriverPanicsInAcquire(t *testing.T) {
	obeyingBubble(t, func(t *testing.T) {
		f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n == 0 {
				time.Sleep(time.Second)
				panic(errPanic)
			}
			return grant(l), nil
		}}
		l := open(t, f)
		done := make(chan error)
		go func() { done <- recovered(func() { mustAcquire(t, l, "name") }) }()
		synctest.Wait()
		next := start(t, l, "name")
		next.waits()
		if reason := <-done; !errors.Is(reason, errPanic) {
			t.Errorf("the caller recovers %v, want %v", reason, errPanic)
		}
		next.granted()
		synctest.Wait()
		if !f.lock(0).isRemoved() {
			t.Error("what the driver may have left before it panicked was not removed")
		}
	})
}

// A Lock that panics has left nothing, and nobody waits for it: not Close either. The first Lock of
// an acquisition is called on the goroutine of the caller whatever the driver has declared.
func TestADriverPanicsInLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{locking: func(l *fakeLock) {
			if l.n == 0 {
				panic(errPanic)
			}
		}}
		l := open(t, f)
		w := new(watcher)
		attach(t, l, w, locker.EventRefused)
		reason := recovered(func() { _, _ = l.Acquire(t.Context(), "name") })
		if !errors.Is(reason, errPanic) {
			t.Errorf("the caller recovers %v, want %v", reason, errPanic)
		}
		if s := statsOf(t, l); s.Refused["error"] != 1 || s.Waiting+s.Held+s.Removing != 0 {
			t.Errorf("Stats = %+v", s)
		}
		mustAcquire(t, l, "name")
		if err := closesWithin(t, l, 0); err != nil {
			t.Errorf("Close = %v", err)
		}
		if n := len(w.take()); n != 1 {
			t.Errorf("%d events of refused calls, want one", n)
		}
	})
}

// What a Release that panics may have left is removed in the background.
func TestADriverPanicsInRelease(t *testing.T) {
	obeyingBubble(t, func(t *testing.T) {
		f := &fake{release: func(_ context.Context, l *fakeLock) error {
			if l.count(&l.releases) == 1 {
				panic(errPanic)
			}
			return nil
		}}
		l := open(t, f)
		lease := mustAcquire(t, l, "name")
		if reason := recovered(func() { lease.Release(t.Context()) }); !errors.Is(reason, errPanic) {
			t.Errorf("the caller recovers %v, want %v", reason, errPanic)
		}
		matches(t, "Err", lease.Err(), locker.ErrReleased)
		time.Sleep(time.Second)
		if !f.lock(0).isRemoved() {
			t.Error("it was not removed")
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

// A driver that has declared what it doesn't do holds up the caller that called it, and nobody
// else: waiters after it leave in time, leases are lost by the timer, and Close returns, with an
// error. It closes the driver, which ends the call.
func TestADriverThatIgnoresContextsAgainstItsDeclaration(t *testing.T) {
	obeyingBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		var stuck atomic.Bool
		f := &fake{leaves: true}
		f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			if stuck.Load() && l.req.Name == "stuck" {
				<-gate
				return driver.Grant{}, errService
			}
			return grant(l), nil
		}
		f.renew = func(context.Context, *fakeLock) (driver.Instant, error) {
			<-gate
			return 0, errService
		}
		f.release = func(_ context.Context, l *fakeLock) error {
			if l.req.Name == "released" {
				<-gate
			}
			return nil
		}
		f.shut = func(context.Context) error {
			close(gate)
			return nil
		}
		l := open(t, f)
		began := time.Now()
		lost, released := mustAcquire(t, l, "lost"), mustAcquire(t, l, "released")
		stuck.Store(true)
		release := make(chan error, 1)
		go func() { release <- released.Release(t.Context()) }()
		head := start(t, l, "stuck")
		head.waits()
		next := start(t, l, "stuck")
		next.waits()
		head.cancel(errCause)
		next.cancel(errCause)
		matches(t, "Acquire", next.failed(), context.Canceled, errCause)
		if next.took != 0 {
			t.Errorf("the next waiter left after %v, want at once", next.took)
		}
		head.waits()
		mustAcquire(t, l, "other")
		matches(t, "Err", released.Err(), locker.ErrReleased)
		matches(t, "Err", endsAt(t, lost, began, validity), locker.ErrLost)

		closed := closesWithin(t, l, 13*time.Second)
		if closed == nil || !strings.Contains(closed.Error(), "not confirmed") {
			t.Errorf("Close = %v, want it to say that a removal is not confirmed", closed)
		}
		matches(t, "Acquire", head.failed(), locker.ErrClosed)
		if err := <-release; err != nil && !errors.Is(err, locker.ErrClosed) {
			t.Errorf("Release = %v", err)
		}
	})
}

// An acquisition that dies during its first request begins again in the background, where its
// caller can leave it.
func TestAnAcquisitionThatDiesDuringItsFirstRequest(t *testing.T) {
	obeyingBubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n < 2 {
				l.lost(errRevoked)
				err := hang(ctx)
				matches(t, "the context's cause", context.Cause(ctx), errRevoked)
				return driver.Grant{}, err
			}
			return grant(l), nil
		}}
		l := open(t, f)
		mustAcquire(t, l, "name")
		for n := range 2 {
			if !f.lock(n).isRemoved() {
				t.Errorf("acquisition %d was not removed", n)
			}
		}
	})
}

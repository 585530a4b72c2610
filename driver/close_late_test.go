package driver_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// closesWithin closes l and fails the test when that takes longer.
func closesWithin(t *testing.T, l locker.Locker, limit time.Duration) error {
	t.Helper()
	began := time.Now()
	err := l.Close()
	if d := time.Since(began); d > limit {
		t.Errorf("Close took %v, want %v at most", d, limit)
	}
	return err
}

// When a service doesn't answer, Close takes until its time limit. Calls that obey their contexts
// are over when the driver is closed.
func TestCloseWhenTheServiceDoesNotAnswer(t *testing.T) {
	for _, leases := range []int{1, 16, 40} { // one call of Release, as many as run at a time, and more
		t.Run(fmt.Sprint(leases), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{
					renew:   func(ctx context.Context, _ *fakeLock) (driver.Instant, error) { return 0, hang(ctx) },
					release: func(ctx context.Context, _ *fakeLock) error { return hang(ctx) },
				}
				f.leaves = true
				f.shut = func(context.Context) error {
					f.mu.Lock()
					defer f.mu.Unlock()
					if f.calls > 0 {
						t.Errorf("the driver was closed during %d calls, which would have returned with their contexts", f.calls)
					}
					return nil
				}
				l := open(t, f)
				held := make([]locker.Lease, leases)
				for i := range held {
					held[i] = mustAcquire(t, l, fmt.Sprint(i), locker.WithTTL(time.Hour))
				}
				err := closesWithin(t, l, 7*time.Second)
				if err == nil {
					t.Error("Close = nil, though nothing was removed")
				}
				for _, lease := range held {
					if err := lease.Release(t.Context()); err == nil {
						t.Fatal("Release after Close = nil, though nothing was removed")
					}
				}
			})
		})
	}
}

func TestCloseDuringHungCalls(t *testing.T) {
	for _, call := range []string{"acquire", "renew", "release"} {
		t.Run(call, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				broken := make(chan struct{}) // closed by the driver's Close: nothing else ends such a call
				f := &fake{leaves: true}
				stuck := func() error { <-broken; return errService }
				f.shut = func(context.Context) error { close(broken); return nil }
				switch call {
				case "acquire":
					f.acquire = func(context.Context, *fakeLock) (driver.Grant, error) { return driver.Grant{}, stuck() }
				case "renew":
					f.renew = func(context.Context, *fakeLock) (driver.Instant, error) { return 0, stuck() }
				case "release":
					f.release = func(context.Context, *fakeLock) error { return stuck() }
				}
				l := open(t, f)
				p := start(t, l, "name")
				time.Sleep(ttl / 2)
				if call == "acquire" {
					p.waits()
				} else {
					p.granted()
				}
				err := closesWithin(t, l, 8*time.Second)
				if call != "renew" && err == nil {
					t.Error("Close = nil, though something is left")
				}
				if call != "renew" {
					matches(t, "Close", err, locker.ErrUnconfirmed)
				}
				if call == "acquire" && !strings.HasSuffix(err.Error(), "is not confirmed for 1 leases") {
					t.Errorf("Close = %v, want it to say what is left", err) // the reason isn't known
				}
				synctest.Wait()
			})
		})
	}
}

// A driver whose calls don't return after its Close either costs a goroutine, but Close returns.
func TestCloseOfADriverThatNeverReturns(t *testing.T) {
	for _, call := range []string{"acquire", "release", "close"} {
		t.Run(call, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := make(chan struct{})
				f := &fake{leaves: true}
				switch call {
				case "acquire":
					f.acquire = func(context.Context, *fakeLock) (driver.Grant, error) {
						<-gate
						return driver.Grant{}, errService
					}
				case "release":
					f.release = func(context.Context, *fakeLock) error { <-gate; return nil }
				case "close":
					f.shut = func(context.Context) error { <-gate; return nil }
				}
				l := open(t, f)
				p := start(t, l, "name")
				synctest.Wait()
				time.AfterFunc(time.Minute, func() { close(gate) })
				err := closesWithin(t, l, 15*time.Second)
				if err == nil {
					t.Error("Close = nil, though a call has not returned")
				}
				if call != "close" {
					matches(t, "Close", err, locker.ErrUnconfirmed)
				}
				<-p.done
				if call == "release" {
					err := p.lease.Release(t.Context())
					matches(t, "Release after Close", err, locker.ErrUnconfirmed)
					if strings.Contains(err.Error(), "goes on") {
						t.Errorf("Release after Close = %v, and nothing goes on", err)
					}
				}
				<-gate
				time.Sleep(time.Minute)
			})
		})
	}
}

// Removals that fail are tried again until the time is up, and are then given up and counted.
func TestCloseWhenTheServiceFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{leaves: true, release: func(context.Context, *fakeLock) error { return errService }}
		l := open(t, f)
		first, second := mustAcquire(t, l, "1"), mustAcquire(t, l, "2")
		matches(t, "Release", first.Release(t.Context()), errService)
		err := closesWithin(t, l, 6*time.Second)
		if err == nil {
			t.Fatal("Close = nil, though nothing was removed")
		}
		n := f.lock(1).count(&f.lock(1).releases)
		if n < 30 { // about ten a second, and more at first
			t.Errorf("%d tries in the time of Close, want 30 at least", n)
		}
		for _, lease := range []locker.Lease{first, second} {
			matches(t, "Release after Close", lease.Release(t.Context()), errService)
		}
		time.Sleep(time.Minute)
		if m := f.lock(1).count(&f.lock(1).releases); m != n {
			t.Errorf("%d tries after Close", m-n)
		}
	})
}

// A Release that is under way when Close begins, or begins during it, returns the result of the
// removal.
func TestReleaseDuringClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{leaves: true, release: func(ctx context.Context, _ *fakeLock) error { return hang(ctx) }}
		l := open(t, f)
		before := mustAcquire(t, l, "before", locker.WithTTL(time.Hour))
		during := mustAcquire(t, l, "during", locker.WithTTL(time.Hour))
		var wg sync.WaitGroup
		release := func(lease locker.Lease) {
			wg.Go(func() {
				began := time.Now()
				if err := lease.Release(t.Context()); err == nil {
					t.Error("Release = nil, though it was not removed")
				}
				if d := time.Since(began); d > 5*time.Second {
					t.Errorf("Release took %v, want 5s at most", d)
				}
			})
		}
		release(before)
		time.Sleep(time.Second)
		wg.Go(func() { _ = closesWithin(t, l, 7*time.Second) })
		time.Sleep(4500 * time.Millisecond)
		release(during)
		wg.Wait()
	})
}

// A Release at the very moment at which the time for closing is up.
func TestReleaseAtTheEndOfClose(t *testing.T) {
	for range 50 {
		bubble(t, func(t *testing.T) {
			f := &fake{leaves: true, release: func(context.Context, *fakeLock) error { return errService }}
			l := open(t, f)
			lease := mustAcquire(t, l, "name")
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					time.Sleep(5 * time.Second)
					matches(t, "Release", lease.Release(t.Context()), errService)
				})
			}
			l.Close()
			wg.Wait()
		})
	}
}

// The driver has its own time for closing, and its error is returned even when it uses it up.
func TestTheTimeOfADriversClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{leaves: true, shut: func(ctx context.Context) error {
			<-ctx.Done()
			return errService
		}}
		matches(t, "Close", closesWithin(t, open(t, f), 5*time.Second), errService)
	})
}

package driver_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestCloseEndsLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		held := mustAcquire(t, l, "held")
		released := mustAcquire(t, l, "released")
		released.Release(t.Context())
		expired := mustAcquire(t, l, "expired", locker.WithoutRenewal())
		time.Sleep(validity)
		mustAcquire(t, l, "late", locker.WithoutRenewal()) // its deadline passes in a suspension that nobody has noticed
		driver.Suspend(validity / 2)
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		<-held.Done()
		matches(t, "Err", held.Err(), locker.ErrReleased, locker.ErrClosed)
		matchesNone(t, "Err", held.Err(), locker.ErrLost)
		matchesNone(t, "Err", released.Err(), locker.ErrClosed)
		matches(t, "Err", expired.Err(), locker.ErrLost)
		matchesNone(t, "Err", expired.Err(), locker.ErrClosed)
		for n := range 4 {
			if !f.lock(n).isRemoved() {
				t.Errorf("lease %d was not removed before Close returned", n)
			}
		}
		if err := held.Release(t.Context()); err != nil {
			t.Errorf("Release after Close = %v", err)
		}
		matches(t, "Renew after Close", held.Renew(t.Context()), locker.ErrReleased, locker.ErrClosed)
		f.lock(0).lost(errService) // late
		matchesNone(t, "Err", held.Err(), errService)
	})
}

func TestALeaseThatIsPastItsDeadlineIsLostNotClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		lease := mustAcquire(t, l, "name")
		driver.Suspend(ttl)
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		matches(t, "Err", lease.Err(), locker.ErrLost)
		matchesNone(t, "Err", lease.Err(), locker.ErrReleased, locker.ErrClosed)
	})
}

func TestAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		for _, opts := range [][]locker.Option{nil, {locker.NoWait()}} {
			_, err := l.Acquire(t.Context(), "name", opts...)
			matches(t, "Acquire", err, locker.ErrClosed)
		}
		if g := l.Guarantees(); g.Backend != "fake" {
			t.Errorf("Guarantees = %+v", g)
		}
	})
}

// Every waiter is woken at once, wherever it stands, and leaves nothing.
func TestCloseWakesWaiters(t *testing.T) {
	for _, tc := range []struct {
		name    string
		acquire func(context.Context, *fakeLock) (driver.Grant, error)
		renew   func(context.Context, *fakeLock) (driver.Instant, error)
	}{
		{"asking", func(ctx context.Context, _ *fakeLock) (driver.Grant, error) { return driver.Grant{}, hang(ctx) }, nil},
		{"queued", queues(nil), nil},
		{"polling", polled, nil},
		{"proving", func(_ context.Context, l *fakeLock) (driver.Grant, error) { return stamped(time.Hour)(l), nil },
			func(ctx context.Context, _ *fakeLock) (driver.Instant, error) { return 0, hang(ctx) }},
		{"queueing anew", func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			l.lost(errService)
			return driver.Grant{}, driver.Held{}
		}, nil},
		{"asking a driver that ignores contexts", func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			time.Sleep(3 * time.Second)
			return grant(l), nil
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := open(t, &fake{acquire: tc.acquire, renew: tc.renew})
				all := startAll(t, l, "name", 5)
				time.Sleep(time.Second)
				for _, p := range all {
					p.waits()
				}
				if err := l.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
				for _, p := range all {
					err := p.failed()
					matches(t, "Acquire", err, locker.ErrClosed)
					matchesNone(t, "Acquire", err, locker.ErrHeld, context.Canceled)
					if p.took != time.Second {
						t.Errorf("Acquire returned after %v, want at once", p.took)
					}
				}
			})
		})
	}
}

func TestCloseTwiceAndAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{release: func(context.Context, *fakeLock) error {
			time.Sleep(time.Second)
			return nil
		}}
		f.shut = func(context.Context) error { return errService }
		f.leaves = true
		l := open(t, f)
		mustAcquire(t, l, "name")
		began := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				matches(t, "Close", l.Close(), errService)
				if d := time.Since(began); d != time.Second {
					t.Errorf("Close took %v, want a second", d)
				}
			})
		}
		wg.Wait()
		matches(t, "Close", l.Close(), errService)
		if !f.lock(0).isRemoved() {
			t.Error("the lease was not removed")
		}
	})
}

func TestCloseOfALockerThatWasNotUsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		began := time.Now()
		if err := open(t, &fake{}).Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("Close took %v", d)
		}
	})
}

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

// A service that is silent costs Close its time limit; calls that obey their contexts are over when the driver is closed.
func TestCloseBesideASilentService(t *testing.T) {
	for _, leases := range []int{1, 16, 40} { // one call of Release each, as many as go side by side, and more
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
				broken := make(chan struct{}) // by the driver's Close: nothing else ends such a call
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
				synctest.Wait()
			})
		})
	}
}

// A driver that breaks even the last rule costs a goroutine, but Close returns.
func TestCloseOfADriverThatNeverReturns(t *testing.T) {
	for _, call := range []string{"acquire", "close"} {
		t.Run(call, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := make(chan struct{})
				f := &fake{leaves: true}
				if call == "acquire" {
					f.acquire = func(context.Context, *fakeLock) (driver.Grant, error) {
						<-gate
						return driver.Grant{}, errService
					}
				} else {
					f.shut = func(context.Context) error { <-gate; return nil }
				}
				l := open(t, f)
				p := start(t, l, "name")
				synctest.Wait()
				time.AfterFunc(time.Minute, func() { close(gate) })
				if err := closesWithin(t, l, 15*time.Second); err == nil {
					t.Error("Close = nil, though a call has not returned")
				}
				<-p.done
				<-gate
				time.Sleep(time.Minute)
			})
		})
	}
}

// Removals that fail are tried again until the time is up, then given up and counted.
func TestCloseBesideAServiceThatFails(t *testing.T) {
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
		if n < 5 {
			t.Errorf("%d tries in the time of Close", n)
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

// A removal that is confirmed in the time of Close leaves nothing to complain about.
func TestCloseWaitsForRemovals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{release: func(_ context.Context, l *fakeLock) error {
			if l.count(&l.releases) < 4 {
				return errService
			}
			return nil
		}}
		l := open(t, f)
		for n := range 100 {
			mustAcquire(t, l, fmt.Sprint(n))
		}
		if err := closesWithin(t, l, time.Second); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// A Release that is under way when Close begins, or comes during it, is told what comes of it.
func TestReleaseDuringClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{leaves: true, release: func(ctx context.Context, _ *fakeLock) error { return hang(ctx) }}
		l := open(t, f)
		before, during := mustAcquire(t, l, "before", locker.WithTTL(time.Hour)), mustAcquire(t, l, "during", locker.WithTTL(time.Hour))
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
		wg.Go(func() { closesWithin(t, l, 7*time.Second) })
		time.Sleep(4500 * time.Millisecond)
		release(during)
		wg.Wait()
	})
}

// Acquire races with Close: no call of the driver may begin when it is closed, Lock included.
func TestAcquireRacesWithClose(t *testing.T) {
	for range 200 {
		f := &fake{}
		l := open(t, f)
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				for {
					lease, err := l.Acquire(t.Context(), fmt.Sprint(n))
					if err != nil {
						matches(t, "Acquire", err, locker.ErrClosed)
						return
					}
					lease.Release(t.Context())
				}
			})
		}
		wg.Go(func() { l.Close() })
		wg.Wait()
	}
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

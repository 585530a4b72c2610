package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
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
		mustAcquire(t, l, "late", locker.WithoutRenewal()) // its deadline passes in an unnoticed suspension
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
		f.tell(0, errService) // late
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

// Every waiter returns at once, whatever its phase, and leaves nothing.
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
		{"queueing again", func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			l.lost(errService)
			return driver.Grant{}, driver.ErrQueued
		}, nil},
		{"asking a driver that ignores contexts", func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			time.Sleep(3 * time.Second)
			return grant(l), nil
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ignores := strings.Contains(tc.name, "ignores contexts")
			bubbleFor(ignores)(t, func(t *testing.T) {
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

// Close says what couldn't be removed by the end, with the reason.
func TestCloseNamesTheReasonOfWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{release: func(context.Context, *fakeLock) error { return errService }}
		f.leaves = true
		l := open(t, f)
		mustAcquire(t, l, "a")
		mustAcquire(t, l, "b")
		err := l.Close()
		matches(t, "Close", err, errService)
		if !strings.Contains(err.Error(), "2 leases") {
			t.Errorf("Close = %v, want it to say that 2 leases are left", err)
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

// A removal that is confirmed before Close's time is up is no error.
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

// Acquire races with Close: no call of the driver, not even Lock, may begin when it is closed.
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

// The last try before Close's time is up may fail by that time limit, which is not the reason to
// report.
func TestCloseNamesTheErrorBeforeTheTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{leaves: true, release: func(ctx context.Context, l *fakeLock) error {
			if l.count(&l.releases) <= 3 {
				return errService
			}
			<-ctx.Done()
			return errors.New("there was no time")
		}}
		l := open(t, f)
		mustAcquire(t, l, "name")
		matches(t, "Close", l.Close(), errService)
	})
}

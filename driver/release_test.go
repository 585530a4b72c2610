package driver_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestReleaseIsRepeatable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		lease := mustAcquire(t, open(t, f), "name")
		for range 3 {
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		}
		<-lease.Done()
		matches(t, "Err", lease.Err(), locker.ErrReleased)
		matchesNone(t, "Err", lease.Err(), locker.ErrLost, locker.ErrClosed)
		if n := f.lock(0).count(&f.lock(0).releases); n != 1 {
			t.Errorf("%d requests, want one", n)
		}
	})
}

func TestReleaseWithACancelledContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type key struct{}
		f := &fake{release: func(ctx context.Context, _ *fakeLock) error {
			if ctx.Value(key{}) != "traced" {
				t.Error("the values of the caller's context were dropped")
			}
			time.Sleep(time.Second)
			return ctx.Err()
		}}
		lease := mustAcquire(t, open(t, f), "name")
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "traced"))
		cancel()
		if err := lease.Release(ctx); err != nil {
			t.Errorf("Release = %v", err)
		}
		if !f.lock(0).isRemoved() {
			t.Error("it was not removed")
		}
	})
}

func TestASecondReleaseAsksAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{release: func(_ context.Context, l *fakeLock) error {
			if l.count(&l.releases) < 3 {
				return errService
			}
			return nil
		}}
		lease := mustAcquire(t, open(t, f), "name")
		for range 2 {
			err := lease.Release(t.Context())
			matches(t, "Release", err, locker.ErrUnconfirmed, errService)
			matchesNone(t, "Release", err, locker.ErrNoAnswer)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("the third Release = %v", err)
		}
		if n := f.lock(0).count(&f.lock(0).releases); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})
}

// Release is bounded by the TTL, or by five seconds, whatever the driver does.
func TestReleaseIsBounded(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ttl   time.Duration
		obeys bool
		want  time.Duration
	}{
		{"a short TTL", time.Second, true, time.Second},
		{"a long TTL", time.Hour, true, 5 * time.Second},
		{"no TTL", 0, true, 5 * time.Second},
		{"a driver that ignores its context", time.Hour, false, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubbleFor(!tc.obeys)(t, func(t *testing.T) {
				gate := make(chan struct{})
				f := &fake{}
				f.release = func(ctx context.Context, _ *fakeLock) error {
					if !tc.obeys {
						<-gate
						return nil
					}
					select {
					case <-gate:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				lease := mustAcquire(t, openWith(t, f, driver.Config{TTL: tc.ttl}), "name")
				for range 2 {
					began := time.Now()
					err := lease.Release(t.Context())
					if d := time.Since(began); d > tc.want {
						t.Errorf("Release took %v, want %v at most", d, tc.want)
					}
					matches(t, "Release", err, locker.ErrUnconfirmed, locker.ErrNoAnswer)
					matchesNone(t, "Release", err, locker.ErrLost, context.DeadlineExceeded)
					matches(t, "Err", lease.Err(), locker.ErrReleased)
					time.Sleep(10 * time.Millisecond) // into the next try in the background
				}
				close(gate)
				time.Sleep(10 * time.Second)
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release once the service is back = %v", err)
				}
			})
		})
	}
}

func TestReleaseAfterTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		lease := mustAcquire(t, open(t, f), "name", locker.WithoutRenewal())
		driver.Suspend(ttl) // no timer has run
		for range 2 {
			matches(t, "Release", lease.Release(t.Context()), locker.ErrLost)
		}
		matches(t, "Err", lease.Err(), locker.ErrLost)
		matchesNone(t, "Err", lease.Err(), locker.ErrReleased)
		synctest.Wait()
		if !f.lock(0).isRemoved() {
			t.Error("it was not removed")
		}
	})
}

// A loss that is reported after the release has begun doesn't change what Release returns.
func TestALossAfterTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		f.release = func(context.Context, *fakeLock) error {
			f.tell(0, errService)
			time.Sleep(2 * ttl)
			return nil
		}
		lease := mustAcquire(t, openWith(t, f, driver.Config{TTL: time.Hour}), "name")
		lease.Release(t.Context())
		matches(t, "Err", lease.Err(), locker.ErrReleased)
		matchesNone(t, "Err", lease.Err(), locker.ErrLost)
		time.Sleep(2 * ttl)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

func TestNoRenewalAfterRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for wait := time.Duration(0); wait <= ttl/3; wait += ttl / 60 { // before, during and after the first renewal
			f := &fake{}
			f.renew = func(context.Context, *fakeLock) (driver.Instant, error) {
				time.Sleep(time.Second)
				return driver.Stamp(), nil
			}
			f.release = func(_ context.Context, l *fakeLock) error {
				time.Sleep(ttl / 4)
				if l.count(&l.releases) < 5 {
					return errService
				}
				return nil
			}
			lease := mustAcquire(t, open(t, f), "name")
			time.Sleep(wait)
			matches(t, "Release", lease.Release(t.Context()), errService)
			n := len(f.renewed())
			deadline := lease.Deadline()
			time.Sleep(5 * ttl)
			if more := len(f.renewed()) - n; more > 0 {
				t.Errorf("%d renewals after Release", more)
			}
			if d := lease.Deadline(); !d.Equal(deadline) {
				t.Errorf("the deadline moved by %v after Release", d.Sub(deadline))
			}
		}
	})
}

// The release or the deadline, whichever comes first, decides, and everybody sees the same.
func TestReleaseRacesWithTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		lost := 0
		for range 500 {
			lease := mustAcquire(t, l, "name", locker.WithoutRenewal())
			results := make([]error, 3)
			var wg sync.WaitGroup
			for i := range results {
				wg.Go(func() {
					time.Sleep(validity)
					results[i] = lease.Release(t.Context())
				})
			}
			wg.Wait()
			synctest.Wait()
			end := lease.Err()
			for _, err := range results {
				if errors.Is(end, locker.ErrLost) != errors.Is(err, locker.ErrLost) {
					t.Fatalf("Release = %v and Err = %v", err, end)
				}
			}
			if errors.Is(end, locker.ErrLost) {
				lost++
			}
		}
		if lost != 500 {
			t.Errorf("%d of 500 were lost: Release must not return nil at the deadline", lost)
		}
	})
}

// A Release at the moment of a renewal: a released lease is not renewed, and the answer to its
// renewal has no effect.
func TestReleaseRacesWithTheRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		mustAcquire(t, l, "clock")
		time.Sleep(ttl / 3)
		tick := f.renewed()[0].at // leases of one TTL are renewed on a grid of a tenth of it
		renewed := 0
		for n := 1; n <= 300; n++ {
			lease := mustAcquire(t, l, "name")
			due := driver.Stamp().Add(ttl / 3)
			time.Sleep(due.Sub(driver.Stamp()) - due.Sub(tick)%(ttl/10))
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
			synctest.Wait()
			renewed += f.lock(n).count(&f.lock(n).renews)
			matches(t, "Err", lease.Err(), locker.ErrReleased)
		}
		if renewed == 0 || renewed == 300 {
			t.Errorf("%d of 300 were renewed; the race was not tried", renewed)
		}
	})
}

func TestReleasesThatOverlapShareOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{release: func(context.Context, *fakeLock) error {
			time.Sleep(time.Second)
			return nil
		}}
		lease := mustAcquire(t, open(t, f), "name")
		began := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(began); d != time.Second {
			t.Errorf("they took %v, want a second", d)
		}
		if n := f.lock(0).count(&f.lock(0).releases); n != 1 {
			t.Errorf("%d requests, want one", n)
		}
	})
}

// A caller without a context panics, and may recover. The Locker goes on.
func TestReleaseWithoutAContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		lease, other := mustAcquire(t, l, "name"), mustAcquire(t, l, "other", locker.WithTTL(time.Second), locker.WithoutRenewal())
		func() {
			defer func() { _ = recover() }()
			_ = lease.Release(nil) //nolint:staticcheck // as a faulty program calls it
		}()
		<-other.Done()
		matches(t, "Err", other.Err(), locker.ErrLost)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

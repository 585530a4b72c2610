package driver_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// removedAt fails the test unless the driver's first Release comes that long after began.
func removedAt(t testing.TB, l *fakeLock, began time.Time, want time.Duration) {
	t.Helper()
	time.Sleep(time.Until(began.Add(want - 1)))
	synctest.Wait()
	if n := l.count(&l.releases); n != 0 {
		t.Errorf("it was removed before %v", want)
	}
	time.Sleep(time.Nanosecond)
	synctest.Wait()
	if n := l.count(&l.releases); n != 1 {
		t.Errorf("%d calls of Release after %v, want one", n, want)
	}
}

// A lease that is released early is over at once for its holder, and stays on the service until its
// minimum hold is over.
func TestMinHold(t *testing.T) {
	const hold = 25 * time.Second
	const inForce = hold + hold/10 + 10*time.Millisecond // the TTL
	for _, tc := range []struct {
		name    string
		cfg     driver.Config
		opts    []locker.Option
		ttl     time.Duration
		renewed bool
	}{
		{"longer than the TTL", driver.Config{TTL: ttl, Features: locker.FeatureTTL}, nil, inForce, true},
		{"much shorter than the TTL", driver.Config{TTL: time.Hour}, nil, time.Hour, false},
		{"a TTL that is asked for", driver.Config{TTL: ttl, Features: locker.FeatureTTL}, []locker.Option{locker.WithTTL(time.Second)}, inForce, true},
		{"a longer TTL that is asked for", driver.Config{TTL: ttl, Features: locker.FeatureTTL}, []locker.Option{locker.WithTTL(time.Minute)}, time.Minute, true},
		{"without renewal", driver.Config{TTL: ttl}, []locker.Option{locker.WithoutRenewal()}, inForce, false},
		{"without a TTL", driver.Config{}, nil, 0, false},
		{"with a longest hold", driver.Config{TTL: ttl}, []locker.Option{locker.WithMaxHold(hold)}, inForce, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{}
				l := openWith(t, f, tc.cfg)
				began := time.Now()
				lease := mustAcquire(t, l, "name", append(tc.opts, locker.WithMinHold(hold))...)
				if got := f.lock(0).req.TTL; got != tc.ttl {
					t.Errorf("the driver was asked for a TTL of %v, want %v", got, tc.ttl)
				}
				time.Sleep(time.Second)
				deadline := lease.Deadline()
				for range 2 {
					if err := lease.Release(t.Context()); err != nil || time.Since(began) != time.Second {
						t.Errorf("Release = %v after %v", err, time.Since(began))
					}
				}
				<-lease.Done()
				matches(t, "Err", lease.Err(), locker.ErrReleased)
				matches(t, "Renew", lease.Renew(callerContext(t)), locker.ErrReleased)
				removedAt(t, f.lock(0), began, hold)
				if got := f.lock(0).count(&f.lock(0).renews); got > 0 != tc.renewed {
					t.Errorf("%d renewals, and it is renewed: %v", got, tc.renewed)
				}
				if !lease.Deadline().Equal(deadline) {
					t.Errorf("the deadline moved by %v after Release", lease.Deadline().Sub(deadline))
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release after the removal = %v", err)
				}
			})
		})
	}
}

// A lease that is old enough is released as any other.
func TestMinHoldThatIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const hold = 5 * time.Second
		f := &fake{release: func(_ context.Context, l *fakeLock) error {
			if l.count(&l.releases) == 1 {
				return errService
			}
			return nil
		}}
		lease := mustAcquire(t, open(t, f), "name", locker.WithMinHold(hold))
		time.Sleep(hold)
		matches(t, "Release", lease.Release(t.Context()), errService)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("the second Release = %v", err)
		}
	})
}

// The minimum hold counts from the return of Acquire, also after a wait.
func TestMinHoldCountsFromTheReturnOfAcquire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant)
		f := &fake{acquire: queues(grants)}
		p := start(t, open(t, f), "name", locker.WithMinHold(time.Minute))
		time.Sleep(time.Hour)
		grants <- grant
		lease, began := p.granted(), time.Now()
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		removedAt(t, f.lock(0), began, time.Minute)
	})
}

// A process may die just after the grant. So an old grant, whose TTL would end before the minimum
// hold, is verified first.
func TestMinHoldVerifiesAnOldGrant(t *testing.T) {
	for _, tc := range []struct {
		hold  time.Duration
		calls int
	}{{validity - ttl/4, 0}, {validity - ttl/4 + 1, 1}} {
		bubble(t, func(t *testing.T) {
			f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
				g := grant(l)
				g.Base = g.Base.Add(-ttl / 4)
				return g, nil
			}}
			mustAcquire(t, open(t, f), "name", locker.WithMinHold(tc.hold))
			if n := f.lock(0).count(&f.lock(0).renews); n != tc.calls {
				t.Errorf("with a minimum hold of %v: %d renewals, want %d", tc.hold, n, tc.calls)
			}
		})
	}
}

// What ends a lease that is kept before its time.
func TestMinHoldAndALoss(t *testing.T) {
	const hold, asked = 8 * time.Second, 10 * time.Second
	bubble(t, func(t *testing.T) { // the driver
		f := &fake{}
		l := open(t, f)
		w := watch(t, l)
		lease := mustAcquire(t, l, "name", locker.WithMinHold(hold), locker.WithTTL(asked))
		_ = lease.Release(t.Context())
		time.Sleep(time.Second)
		f.tell(0, errService)
		synctest.Wait()
		if !f.lock(0).isRemoved() {
			t.Error("it was not removed")
		}
		matches(t, "Err", lease.Err(), locker.ErrReleased)
		w.wants(t, ofLease(locker.EventGranted, 1), ofLease(locker.EventReleased, 1))
		if s := statsOf(t, l); s.Released != 1 || len(s.Lost) != 0 {
			t.Errorf("Stats = %+v", s)
		}
	})
	bubble(t, func(t *testing.T) { // a renewal
		f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) { return 0, locker.ErrLost }}
		l := open(t, f)
		w := watch(t, l)
		lease := mustAcquire(t, l, "name", locker.WithMinHold(hold), locker.WithTTL(asked))
		time.Sleep(time.Millisecond)
		_ = lease.Release(t.Context())
		time.Sleep(asked / 3)
		if !f.lock(0).isRemoved() {
			t.Error("it was not removed")
		}
		matchesNone(t, "Err", lease.Err(), locker.ErrLost)
		events := w.take()
		if len(events) != 3 || events[1].Kind != locker.EventRenewalFailed || !errors.Is(events[1].Cause, locker.ErrLost) ||
			events[2].Kind != locker.EventReleased || events[2].Held != time.Millisecond {
			t.Errorf("events: %+v", events)
		}
	})
	bubble(t, func(t *testing.T) { // the TTL
		f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService }}
		l := open(t, f)
		began := time.Now()
		lease := mustAcquire(t, l, "name", locker.WithMinHold(time.Minute))
		const inForce = time.Minute + 6*time.Second + 10*time.Millisecond
		_ = lease.Release(t.Context())
		if n := statsOf(t, l).Kept; n != 1 {
			t.Errorf("%d are kept", n)
		}
		removedAt(t, f.lock(0), began, time.Minute)
		if n := f.lock(0).count(&f.lock(0).renews); n < 5 || f.lock(0).req.TTL != inForce {
			t.Errorf("%d renewals", n)
		}
	})
	bubble(t, func(t *testing.T) { // the TTL, when a grant couldn't be verified in time
		f := &fake{
			acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
				g := grant(l)
				time.Sleep(ttl / 2)
				return g, nil
			},
			renew: func(ctx context.Context, l *fakeLock) (driver.Instant, error) {
				base := driver.Stamp()
				if l.count(&l.renews) > 1 {
					return 0, errService
				}
				time.Sleep(2 * time.Second)
				return base, nil
			},
		}
		lease := mustAcquire(t, open(t, f), "name", locker.WithMinHold(9*time.Second))
		began := time.Now()
		_ = lease.Release(t.Context())
		removedAt(t, f.lock(0), began, f.lock(0).req.TTL*99/100-2*time.Millisecond-2*time.Second)
	})
}

// What observers, Stats and Leases show of a lease that is kept.
func TestMinHoldIsSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const hold = 4 * time.Second
		var down atomic.Bool
		f := &fake{release: func(context.Context, *fakeLock) error {
			if down.Load() {
				return errService
			}
			time.Sleep(time.Millisecond)
			return nil
		}}
		l := open(t, f)
		w := watch(t, l)
		began := time.Now()
		lease := mustAcquire(t, l, "name", locker.WithMinHold(hold))
		time.Sleep(time.Second)
		_ = lease.Release(t.Context())
		time.Sleep(time.Second)
		s := statsOf(t, l)
		if s.Held != 0 || s.Removing != 0 || s.Kept != 1 || s.OldestKept != time.Second || s.OldestRemoving != 0 || s.Released != 0 {
			t.Errorf("Stats = %+v", s)
		}
		list := leasesOf(t, l)
		if len(list) != 1 || list[0].State != "kept" || list[0].Token != lease.Token() || list[0].Since.Sub(began) != time.Second ||
			list[0].Deadline.Sub(began) != hold {
			t.Errorf("Leases = %+v", list)
		}
		w.wants(t, ofLease(locker.EventGranted, 1))
		down.Store(true)
		time.Sleep(time.Until(began.Add(hold)))
		w.wants(t, ofLease(locker.EventRenewed, 1, left(validity-inRhythmOf(f)), took(0)), ofLease(locker.EventRemoving, 1, tries(1), because(errService)))
		if s := statsOf(t, l); s.Kept != 0 || s.Removing != 1 || s.OldestRemoving != 0 {
			t.Errorf("Stats = %+v", s)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		events := w.take()
		last := events[len(events)-1].Event
		if last.Kind != locker.EventReleased || last.Held != time.Second || last.Took <= 0 || last.Took > time.Second {
			t.Errorf("the last event is %+v, want the removal after %v, counted from %v", last, time.Second, hold)
		}
		if s := statsOf(t, l); s.Released != 1 || s.Removing != 0 {
			t.Errorf("Stats = %+v", s)
		}
	})
}

// inRhythmOf is when the first renewal came after the grant.
func inRhythmOf(f *fake) time.Duration {
	return f.renewed()[0].at.Sub(f.lock(0).answered)
}

// Close waits for minimum holds, of leases that were released and of those that it ends itself.
func TestCloseWaitsForMinHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n < 3 {
				return grant(l), nil
			}
			return queues(nil)(ctx, l)
		}}
		l := open(t, f)
		began := time.Now()
		released := mustAcquire(t, l, "released", locker.WithMinHold(20*time.Second))
		_ = released.Release(t.Context())
		time.Sleep(time.Second)
		held := mustAcquire(t, l, "held", locker.WithMinHold(29*time.Second))
		plain := mustAcquire(t, l, "plain")
		waiter := start(t, l, "plain")
		waiter.waits()
		closed := make(chan error, 1)
		go func() { closed <- l.Close() }()
		synctest.Wait()
		matches(t, "Err", held.Err(), locker.ErrReleased, locker.ErrClosed)
		matchesNone(t, "Err", released.Err(), locker.ErrClosed)
		matches(t, "Acquire", waiter.failed(), locker.ErrClosed)
		if err := held.Release(t.Context()); err != nil {
			t.Errorf("Release of what Close has ended = %v", err)
		}
		if err := plain.Release(t.Context()); err != nil || !f.lock(2).isRemoved() {
			t.Errorf("a lease without a minimum hold isn't removed at once: %v", err)
		}
		removedAt(t, f.lock(0), began, 20*time.Second)
		removedAt(t, f.lock(1), began, 30*time.Second)
		if err := <-closed; err != nil || time.Since(began) != 30*time.Second {
			t.Errorf("Close = %v after %v", err, time.Since(began))
		}
	})
}

// Close is bounded: five seconds after the last minimum hold it gives up, and until then it doesn't
// burden a service that fails.
func TestCloseIsBoundedAfterMinHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{release: func(context.Context, *fakeLock) error { return errService }, leaves: true}
		l := open(t, f)
		mustAcquire(t, l, "kept", locker.WithMinHold(time.Minute))
		plain := mustAcquire(t, l, "plain")
		_ = plain.Release(t.Context())
		began := time.Now()
		err := l.Close()
		matches(t, "Close", err, errService)
		if took := time.Since(began); took != time.Minute+5*time.Second {
			t.Errorf("Close took %v", took)
		}
		if n := f.lock(1).count(&f.lock(1).releases); n < 60 || n > 250 {
			t.Errorf("%d tries, want about one a second, and ten a second in the last five", n)
		}
	})
}

// A driver that can't serve the TTL of a minimum hold refuses it, and the error says why it is asked
// for.
func TestMinHoldWithATTLThatIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{refuse: locker.ErrOption}
		_, err := open(t, f).Acquire(t.Context(), "name", locker.WithMinHold(time.Hour))
		matches(t, "Acquire", err, locker.ErrOption)
		if want := `locker: acquire "name" on fake: a minimum hold of 1h0m0s needs a TTL of 1h6m0.01s: invalid option`; err.Error() != want {
			t.Errorf("Acquire = %q, want %q", err, want)
		}
		_, err = open(t, &fake{refuse: locker.ErrOption}).Acquire(t.Context(), "name", locker.WithTTL(time.Hour), locker.WithMinHold(time.Second))
		if want := `locker: acquire "name" on fake: invalid option`; err.Error() != want {
			t.Errorf("Acquire = %q, want %q", err, want)
		}
	})
}

// The longest minimum hold overflows nothing.
func TestTheLongestMinHold(t *testing.T) {
	const years = 100 * 365 * 24 * time.Hour
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(context.Context, *fakeLock) (driver.Grant, error) { return driver.Grant{}, errService }}
		_, err := open(t, f).Acquire(t.Context(), "name", locker.WithMinHold(years), locker.WithMaxHold(math.MaxInt64))
		matches(t, "Acquire", err, errService)
		if got := f.lock(0).req.TTL; got < years {
			t.Errorf("the TTL is %v", got)
		}
	})
}

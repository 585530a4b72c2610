package driver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// names of the locks of a renewal.
func (r renewal) names() []string {
	var names []string
	for _, l := range r.locks {
		names = append(names, l.req.Name)
	}
	slices.Sort(names)
	return names
}

// A lease is renewed after a third of its TTL, or up to a tenth of it earlier, together with the
// others that have its TTL.
func TestTheRhythmOfRenewals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		last := make(map[string]driver.Instant) // when each was acquired or renewed
		for i := range 20 {
			name := fmt.Sprint(i)
			last[name] = driver.Stamp()
			if i%2 == 0 {
				mustAcquire(t, l, name)
			} else {
				mustAcquire(t, l, name, locker.WithTTL(ttl+time.Second))
			}
			mustAcquire(t, l, "not renewed "+name, locker.WithoutRenewal())
			time.Sleep(rand.N(ttl / 5))
		}
		time.Sleep(5 * ttl)
		before := make(map[time.Duration]driver.Instant) // the last renewal of each TTL
		for _, r := range f.renewed() {
			lasts := r.locks[0].req.TTL
			if at, ok := before[lasts]; ok && r.at.Sub(at) < lasts/10 {
				t.Errorf("two renewals of one TTL are %v apart, want a tenth of %v at least", r.at.Sub(at), lasts)
			}
			before[lasts] = r.at
			for _, name := range r.names() {
				at, ok := last[name]
				if d := r.at.Sub(at); !ok || d > lasts/3 || d < lasts/3-lasts/10 {
					t.Errorf("%s with a TTL of %v was renewed after %v", name, lasts, d)
				}
				last[name] = r.at
			}
		}
		for name, at := range last {
			if d := driver.Stamp().Sub(at); d > (ttl+time.Second)/3 {
				t.Errorf("%s was not renewed for %v", name, d)
			}
		}
	})
}

// Leases of one TTL are renewed together, whatever else is due in between.
func TestRenewalsOfManyLeases(t *testing.T) {
	const lasts = 5 * time.Minute
	for _, tc := range []struct {
		name string
		many int
		opts func(i int) []locker.Option
		ttls int
	}{
		{"one TTL", 10_000, func(int) []locker.Option { return nil }, 1},
		{"two TTLs", 1000, func(i int) []locker.Option {
			return []locker.Option{locker.WithTTL(30*time.Second + time.Duration(i%2)*time.Second)}
		}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{}
				l := openWith(t, f, driver.Config{TTL: 30 * time.Second, Features: locker.FeatureTTL})
				for i := range tc.many {
					mustAcquire(t, l, fmt.Sprint(i), tc.opts(i)...)
					time.Sleep(10 * time.Second / time.Duration(tc.many))
				}
				before := len(f.renewed())
				if before > 10*tc.ttls {
					t.Errorf("%d renewals while they were taken", before)
				}
				time.Sleep(lasts)
				if n := runtime.NumGoroutine(); n > 20 {
					t.Errorf("%d goroutines", n)
				}
				// A tenth of the TTL apart, at most.
				if n, most := len(f.renewed())-before, tc.ttls*int(lasts/(3*time.Second)); n > most {
					t.Errorf("%d renewals in %v, want %d at most", n, lasts, most)
				}
			})
		})
	}
}

// A hung renewal delays neither renewals of other TTLs nor later renewals of the same TTL.
func TestAHungRenewalDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		f := &fake{renew: func(_ context.Context, l *fakeLock) (driver.Instant, error) {
			if l.req.Name == "hangs" {
				<-gate // ignores its context
			}
			return driver.Stamp(), nil
		}}
		l := open(t, f)
		mustAcquire(t, l, "hangs")
		sameMoment := mustAcquire(t, l, "same moment", locker.WithTTL(ttl+1))
		time.Sleep(ttl / 5)
		later := mustAcquire(t, l, "later")
		time.Sleep(10 * ttl)
		for _, lease := range []locker.Lease{sameMoment, later} {
			if err := lease.Err(); err != nil {
				t.Errorf("%s: Err = %v", lease.Name(), err)
			}
		}
		close(gate)
	})
}

// A lock that is reported before its call returns is renewed again in time, though another in that
// call hangs.
func TestAReportFreesItsLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		f := &fake{renew: func(_ context.Context, l *fakeLock) (driver.Instant, error) {
			if l.req.Name == "b" {
				<-gate // ignores its context
			}
			return driver.Stamp(), nil
		}}
		l := open(t, f)
		a, b := mustAcquire(t, l, "a"), mustAcquire(t, l, "b")
		time.Sleep(5 * ttl)
		if renewed := f.renewed(); !slices.Equal(renewed[0].names(), []string{"a", "b"}) {
			t.Fatalf("the first renewal is of %v, want both", renewed[0].names())
		}
		matches(t, "Err", b.Err(), locker.ErrLost)
		if err := a.Err(); err != nil {
			t.Errorf("Err = %v of the lease that was reported", err)
		}
		close(gate)
	})
}

func TestOneFailedRenewalIsSurvived(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(ctx context.Context, l *fakeLock) (driver.Instant, error) {
			switch l.count(&l.renews) {
			case 1:
				return 0, hang(ctx)
			case 2:
				return 0, errService
			case 3:
				return 0, errSilent
			}
			return driver.Stamp(), nil
		}}
		l := open(t, f)
		lease := mustAcquire(t, l, "name")
		began := driver.Stamp()
		time.Sleep(validity)
		if err := lease.Err(); err != nil {
			t.Fatalf("Err = %v, want it to survive three failures", err)
		}
		renewed := f.renewed()
		if first := renewed[0].at.Sub(began); !inRhythm(first) {
			t.Errorf("the first renewal came after %v", first)
		}
		// It hangs for a quarter of the TTL, and each of the following comes a twentieth to a tenth
		// of it later.
		last := renewed[0].at.Add(ttl / 4)
		for i, r := range renewed[1:4] {
			if d := r.at.Sub(last); d < ttl/20 || d > ttl/10 {
				t.Errorf("renewal %d came %v after the failure before", i+1, d)
			}
			last = r.at
		}
		if d := time.Until(lease.Deadline()); d <= 0 {
			t.Errorf("Deadline is %v from now", d)
		}
	})
}

func TestErrNamesTheLastFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(_ context.Context, l *fakeLock) (driver.Instant, error) {
			if l.count(&l.renews) == 1 {
				return 0, context.Canceled // any error at all
			}
			return 0, errService
		}}
		began := time.Now()
		lease := mustAcquire(t, open(t, f), "name")
		err := endsAt(t, lease, began, validity)
		matches(t, "Err", err, locker.ErrLost, errService)
		matchesNone(t, "Err", err, context.Canceled)
	})
}

// A failure that was followed by a success is not reported as the cause of a later loss.
func TestErrForgetsAFailureThatWasOvercome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		f := &fake{renew: func(_ context.Context, l *fakeLock) (driver.Instant, error) {
			switch l.count(&l.renews) {
			case 1:
				return 0, errService
			case 2:
				return driver.Stamp(), nil
			}
			<-gate // ignores its context
			return driver.Stamp(), nil
		}}
		lease := mustAcquire(t, open(t, f), "name")
		<-lease.Done()
		matchesNone(t, "Err", lease.Err(), errService)
		close(gate)
	})
}

func TestTheServiceSaysNotYours(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) {
			return 0, locker.ErrLost
		}}
		began := time.Now()
		lease := mustAcquire(t, open(t, f), "name")
		<-lease.Done()
		if d := time.Since(began); !inRhythm(d) {
			t.Errorf("Done closed after %v, want with the first renewal", d)
		}
		matches(t, "Err", lease.Err(), locker.ErrLost)
		matches(t, "Release", lease.Release(t.Context()), locker.ErrLost)
		matches(t, "Renew", lease.Renew(callerContext(t)), locker.ErrLost)
		synctest.Wait()
		if !f.lock(0).isRemoved() {
			t.Error("the word of the service about one key is no removal")
		}
		if n := len(f.renewed()); n != 1 {
			t.Errorf("%d renewals, want one", n)
		}
	})
}

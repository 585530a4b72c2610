package driver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// queues makes a service in whose queue acquisitions wait until a grant is sent for them. The first
// to wait is served first.
func queues(grants chan func(l *fakeLock) driver.Grant) func(context.Context, *fakeLock) (driver.Grant, error) {
	return func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
		if l.count(&l.acquires) == 1 {
			return driver.Grant{}, driver.ErrQueued
		}
		select {
		case g := <-grants:
			return g(l), nil
		case <-ctx.Done():
			return driver.Grant{}, ctx.Err()
		}
	}
}

// stamped is a grant whose base is of that age.
func stamped(age time.Duration) func(*fakeLock) driver.Grant {
	return func(l *fakeLock) driver.Grant {
		g := grant(l)
		g.Base = g.Base.Add(-age)
		return g
	}
}

func TestAQueuedAcquisitionIsRenewed(t *testing.T) {
	for _, opts := range [][]locker.Option{nil, {locker.WithoutRenewal()}} { // WithoutRenewal is about the lease
		bubble(t, func(t *testing.T) {
			grants := make(chan func(*fakeLock) driver.Grant)
			f := &fake{acquire: queues(grants)}
			l := open(t, f)
			p := start(t, l, "name", opts...)
			p.waits()
			last := driver.Stamp()
			time.Sleep(3 * ttl)
			renewed := f.renewed()
			for i, r := range renewed {
				if d := r.at.Sub(last); !inRhythm(d) {
					t.Errorf("renewal %d came %v after the one before", i, d)
				}
				last = r.at
			}
			if d := driver.Stamp().Sub(last); d > ttl/3 {
				t.Errorf("it was not renewed for %v", d)
			}
			grants <- grant
			granted := time.Now()
			lease := p.granted()
			if n := len(f.renewed()); n != len(renewed) {
				t.Errorf("a fresh grant was renewed before it was returned")
			}
			if d := lease.Deadline().Sub(granted); d != validity {
				t.Errorf("Deadline is %v after the grant, want %v", d, validity)
			}
		})
	}
}

func TestAnOldGrantIsVerifiedFirst(t *testing.T) {
	for _, tc := range []struct {
		name   string
		age    time.Duration
		opts   []locker.Option
		proved int
	}{
		{"fresh", 0, nil, 0},
		{"half the TTL", ttl / 2, nil, 0},
		{"older than half the TTL", ttl/2 + 1, nil, 1},
		{"older than the TTL", time.Hour, nil, 1},
		{"without renewal, fresh", ttl / 20, []locker.Option{locker.WithoutRenewal()}, 0},
		{"without renewal, not so fresh", ttl/20 + 1, []locker.Option{locker.WithoutRenewal()}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				grants := make(chan func(*fakeLock) driver.Grant, 1)
				f := &fake{acquire: queues(grants)}
				l := open(t, f)
				began := time.Now()
				grants <- stamped(tc.age)
				lease := start(t, l, "name", tc.opts...).granted()
				if n := len(f.renewed()); n != tc.proved {
					t.Errorf("proved %d times, want %d", n, tc.proved)
				}
				want := validity
				if tc.proved == 0 {
					want -= tc.age
				}
				if d := lease.Deadline().Sub(began); d != want {
					t.Errorf("Deadline is %v after the grant, want %v", d, want)
				}
			})
		})
	}
}

func TestTheVerificationIsTriedAgain(t *testing.T) {
	for _, age := range []time.Duration{time.Hour, ttl * 3 / 4} { // expired, and valid for a while
		bubble(t, func(t *testing.T) {
			grants := make(chan func(*fakeLock) driver.Grant, 1)
			f := &fake{acquire: queues(grants)}
			f.renew = func(ctx context.Context, l *fakeLock) (driver.Instant, error) {
				switch l.count(&l.renews) {
				case 1:
					return 0, errService
				case 2:
					return 0, hang(ctx)
				case 3:
					return driver.Stamp().Add(-validity), nil // confirmed, but it expires just now
				}
				return driver.Stamp(), nil
			}
			l := open(t, f)
			grants <- stamped(age)
			lease := giveUpAfter(t, l, ttl).granted()
			if n := len(f.renewed()); n != 4 {
				t.Errorf("proved %d times, want 4", n)
			}
			if d := time.Until(lease.Deadline()); d != validity {
				t.Errorf("Deadline is %v from now, want %v", d, validity)
			}
			if n := len(f.prepared()); n != 1 {
				t.Errorf("%d acquisitions, want one", n)
			}
		})
	}
}

// A grant that turns out to be lost is no reason to fail: the wait goes on with a new acquisition.
func TestADeadGrantIsReplaced(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
	}{
		{"lost", locker.ErrLost},
		{"no proof in a TTL", errService},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				grants := make(chan func(*fakeLock) driver.Grant, 1)
				f := &fake{acquire: queues(grants)}
				f.renew = func(_ context.Context, l *fakeLock) (driver.Instant, error) {
					if l.n == 0 {
						return 0, tc.err
					}
					return driver.Stamp(), nil
				}
				l := open(t, f)
				p := start(t, l, "name")
				grants <- stamped(time.Hour)
				time.Sleep(2 * ttl)
				p.waits()
				if n := len(f.prepared()); n != 2 {
					t.Fatalf("%d acquisitions, want 2", n)
				}
				if !f.lock(0).isRemoved() {
					t.Error("the dead one was not removed")
				}
				grants <- grant
				if lease := p.granted(); lease.Token() != 2 {
					t.Errorf("Token = %v, want that of the second acquisition", lease.Token())
				}
			})
		})
	}
}

// A caller that didn't have to wait gets an error when the service is slower than its leases.
func TestAnAcquisitionThatTookLongerThanItsValidityFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{
			acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
				g := grant(l)
				time.Sleep(validity)
				return g, nil
			},
			renew: func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService },
		}
		l := open(t, f)
		_, err := l.Acquire(t.Context(), "name")
		if err == nil {
			t.Fatal("Acquire returned a lease that is over")
		}
		matches(t, "Acquire", err, errService)
		matchesNone(t, "Acquire", err, locker.ErrHeld, context.DeadlineExceeded)
		synctest.Wait()
		if !f.lock(0).isRemoved() {
			t.Error("it was not removed")
		}
	})
}

// A driver may find that its place in the queue is gone, and poll or queue again. What isn't queued
// isn't renewed.
func TestAcquireMayAnswerHeldAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			switch l.count(&l.acquires) {
			case 1, 4, 5:
				return driver.Grant{}, driver.ErrQueued
			case 2, 3: // its place is lost, and it polls when it would be renewed
				time.Sleep(ttl/3 - ttl/10 - time.Millisecond)
				return driver.Grant{}, &driver.HeldError{AskWithin: time.Second}
			}
			time.Sleep(ttl / 3)
			return grant(l), nil
		}
		l := open(t, f)
		p := start(t, l, "name")
		p.granted()
		if n := len(f.renewed()); n != 1 {
			t.Errorf("renewed %d times, want once, in the second half", n)
		}
	})
}

// The answer to a renewal that began before the grant may have a base that says nothing of the
// lease.
func TestARenewalOfTheQueuedSaysNothingOfTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant, 1)
		answer := make(chan driver.Instant)
		f := &fake{acquire: queues(grants)}
		f.renew = func(_ context.Context, l *fakeLock) (driver.Instant, error) {
			if l.count(&l.renews) == 1 {
				return <-answer, nil
			}
			return driver.Stamp(), nil
		}
		l := open(t, f)
		p := start(t, l, "name")
		time.Sleep(ttl / 3)
		p.waits()
		if n := len(f.renewed()); n != 1 {
			t.Fatalf("%d renewals in a third of the TTL, want one", n)
		}
		began := time.Now()
		grants <- grant
		lease := p.granted()
		time.Sleep(time.Second)
		answer <- driver.Stamp()
		synctest.Wait()
		if d := lease.Deadline().Sub(began); d != validity {
			t.Errorf("Deadline is %v after the grant, want %v", d, validity)
		}
		time.Sleep(5 * ttl)
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v, want it to be renewed from then on", err)
		}
	})
}

// A renewal that began while the acquisition was queued may say that it is lost while its grant is
// verified. The verification may have had its answer before that.
func TestALossThatARenewalReportsDuringTheVerification(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant, 1)
		verifying := make(chan struct{})
		f := &fake{acquire: queues(grants)}
		f.renew = func(_ context.Context, l *fakeLock) (driver.Instant, error) {
			switch {
			case l.n > 0:
			case l.count(&l.renews) == 1: // of the place
				<-verifying
				return 0, locker.ErrLost
			default: // of the grant
				close(verifying)
				time.Sleep(time.Millisecond)
			}
			return driver.Stamp(), nil
		}
		l := open(t, f)
		p := start(t, l, "name")
		time.Sleep(ttl / 3)
		p.waits()
		grants <- stamped(time.Hour)
		time.Sleep(time.Second)
		p.waits()
		grants <- grant
		if lease := p.granted(); lease.Token() != 2 {
			t.Errorf("Token = %v, want the token of a second acquisition", lease.Token())
		}
		synctest.Wait()
		if !f.lock(0).isRemoved() {
			t.Error("the lost one was not removed")
		}
		if s := statsOf(t, l); s.Requeued != 1 || s.Granted != 1 || len(s.Lost) != 0 {
			t.Errorf("Stats = %+v, want one that was queued again and one grant", s)
		}
	})
}

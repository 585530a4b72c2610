package driver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// A call that has blocked for a while may end before the grant, as by the driver's own limit. It is
// repeated at once, or the waiter would be late for its turn.
func TestACallThatHasBlockedIsRepeatedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			switch l.count(&l.acquires) {
			case 1:
				return driver.Grant{}, driver.ErrQueued
			case 2, 3, 4:
				time.Sleep(time.Second)
				return driver.Grant{}, driver.ErrQueued
			}
			return grant(l), nil
		}}
		p := start(t, open(t, f), "name")
		p.granted()
		if p.took != 3*time.Second {
			t.Errorf("Acquire took %v, want 3s without a pause", p.took)
		}
	})
}

// Renewals that failed before the grant are no cause of a later loss.
func TestAFailureBeforeTheGrantIsNotTheCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant, 1)
		f := &fake{
			acquire: queues(grants),
			renew:   func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService },
		}
		p := start(t, open(t, f), "name")
		time.Sleep(ttl / 2)
		p.waits()
		if len(f.renewed()) == 0 {
			t.Fatal("no renewal has failed")
		}
		grants <- grant
		lease := p.granted()
		driver.Suspend(ttl)
		err := lease.Err()
		matches(t, "Err", err, locker.ErrLost)
		matchesNone(t, "Err", err, errService)
	})
}

// A place that is lost at the very moment of its renewal, and found again, is renewed as before.
func TestAPlaceThatIsLostDuringItsRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		var tick driver.Instant // of a renewal: the renewals of one TTL are on a grid of a tenth of it
		f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n == 0 {
				return grant(l), nil
			}
			switch l.count(&l.acquires) {
			case 2:
				due := driver.Stamp().Add(ttl / 3)
				time.Sleep(due.Sub(driver.Stamp()) - due.Sub(tick)%(ttl/10))
				return driver.Grant{}, &driver.HeldError{AskWithin: time.Millisecond}
			case 1, 3:
				return driver.Grant{}, driver.ErrQueued
			}
			before := l.count(&l.renews)
			time.Sleep(ttl)
			if n := l.count(&l.renews) - before; n < 2 {
				t.Errorf("acquisition %d was renewed %d times in a TTL, want 2 at least", l.n, n)
			}
			return grant(l), nil
		}
		l := open(t, f)
		mustAcquire(t, l, "clock")
		time.Sleep(ttl / 3)
		tick = f.renewed()[0].at
		for range 300 {
			if err := mustAcquire(t, l, "name").Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		}
	})
}

// Before its grant an acquisition has no deadline that its place would be renewed at. On the real
// clock, because moments are negative in a bubble.
func TestAPlaceHasNoDeadline(t *testing.T) {
	f := &fake{acquire: queues(nil)}
	l := openWith(t, f, driver.Config{TTL: time.Hour})
	p := start(t, l, "name")
	for len(f.prepared()) == 0 || f.lock(0).count(&f.lock(0).acquires) < 2 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // for a renewal that must not come
	if n := len(f.renewed()); n > 0 {
		t.Errorf("%d renewals of a place that is new", n)
	}
	p.cancel(nil)
	_ = p.failed()
}

// A renewal that was under way at the grant, and gets no answer, counts from its own beginning in the
// cause of the loss.
func TestTheCauseOfALossIsARenewalFromBeforeTheGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant, 1)
		gate := make(chan struct{})
		f := &fake{acquire: queues(grants), renew: func(context.Context, *fakeLock) (driver.Instant, error) {
			<-gate // ignores its context
			return driver.Stamp(), nil
		}}
		p := start(t, open(t, f), "name")
		time.Sleep(ttl / 2)
		p.waits()
		grants <- grant
		lease := p.granted()
		<-lease.Done()
		want := fmt.Sprintf("no answer in %v", driver.Stamp().Sub(f.renewed()[0].at).Round(time.Millisecond))
		if err := lease.Err(); !strings.Contains(err.Error(), want) {
			t.Errorf("Err = %q, want in it %q", err, want)
		}
		close(gate)
	})
}

package driver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestHungRenewalDoesNotDelayTheDeadline(t *testing.T) {
	for _, tc := range []struct {
		name  string
		renew func(gate chan struct{}) func(context.Context, *fakeLock) (driver.Instant, error)
		cause error
	}{
		{"the driver obeys its context", func(chan struct{}) func(context.Context, *fakeLock) (driver.Instant, error) {
			return func(ctx context.Context, _ *fakeLock) (driver.Instant, error) { return 0, hang(ctx) }
		}, locker.ErrNoAnswer},
		{"the driver ignores its context", func(gate chan struct{}) func(context.Context, *fakeLock) (driver.Instant, error) {
			return func(context.Context, *fakeLock) (driver.Instant, error) {
				<-gate
				return driver.Stamp(), nil
			}
		}, nil},
		{"the service refuses", func(chan struct{}) func(context.Context, *fakeLock) (driver.Instant, error) {
			return func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService }
		}, errService},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := make(chan struct{})
				f := &fake{renew: tc.renew(gate)}
				l := open(t, f)
				began := time.Now()
				lease := mustAcquire(t, l, "name")
				if d := lease.Deadline(); !d.Equal(began.Add(validity)) {
					t.Errorf("Deadline = %v, want %v after the request", d.Sub(began), validity)
				}
				err := endsAt(t, lease, began, validity)
				matches(t, "Err", err, locker.ErrLost)
				if tc.cause != nil {
					matches(t, "Err", err, tc.cause)
				}
				close(gate)
				if err := lease.Release(t.Context()); err.Error() != lease.Err().Error() {
					t.Errorf("Release after the loss = %v, want %v", err, lease.Err())
				}
			})
		})
	}
}

// The reason for which a lease has ended tells its reader where to look: at the service, the
// network or this process.
func TestTheCauseOfADeadline(t *testing.T) {
	stale := driver.Instant(0)
	for _, tc := range []struct {
		want  string
		opts  []locker.Option
		renew func(context.Context, *fakeLock) (driver.Instant, error)
	}{
		{want: "no answer in ", renew: func(ctx context.Context, _ *fakeLock) (driver.Instant, error) {
			<-ctx.Done()
			time.Sleep(ttl)
			return driver.Stamp(), nil
		}},
		{want: errService.Error(), renew: func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService }},
		{want: "prove no renewal that is new enough", renew: func(context.Context, *fakeLock) (driver.Instant, error) { return stale, nil }},
		{want: "by the caller", opts: []locker.Option{locker.WithoutRenewal()}},
	} {
		bubble(t, func(t *testing.T) {
			f := &fake{renew: tc.renew}
			began := time.Now()
			stale = driver.Stamp()
			lease := mustAcquire(t, open(t, f), "name", tc.opts...)
			err := endsAt(t, lease, began, validity)
			matches(t, "Err", err, locker.ErrLost)
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Err = %q, want in it %q", err, tc.want)
			}
		})
	}
}

// The service begins to count when a request comes, so the deadline counts from before it was sent,
// never from its reply.
func TestTheDeadlineCountsFromTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const slow = time.Second
		f := &fake{
			acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
				g := grant(l)
				time.Sleep(slow)
				return g, nil
			},
			renew: func(context.Context, *fakeLock) (driver.Instant, error) {
				sent := driver.Stamp()
				time.Sleep(slow)
				return sent, nil
			},
		}
		l := open(t, f)
		lease := mustAcquire(t, l, "name")
		if d := time.Until(lease.Deadline()); d != validity-slow {
			t.Errorf("Deadline is %v after the grant, want %v", d, validity-slow)
		}
		if err := lease.Renew(callerContext(t)); err != nil {
			t.Fatalf("Renew = %v", err)
		}
		if d := time.Until(lease.Deadline()); d != validity-slow {
			t.Errorf("Deadline is %v after Renew, want %v", d, validity-slow)
		}
		time.Sleep(ttl/3 + slow)
		renewed := f.renewed()
		if n := len(renewed); n != 2 {
			t.Fatalf("%d renewals, want one in the background", n-1)
		}
		want := validity - driver.Stamp().Sub(renewed[1].at)
		if d := time.Until(lease.Deadline()); d != want {
			t.Errorf("Deadline is %v from now, want %v", d, want)
		}
	})
}

// No request was sent in the future: whatever a driver says, a lease lasts no longer than a TTL
// from now.
func TestABaseInTheFuture(t *testing.T) {
	future := func() driver.Instant { return driver.Stamp().Add(time.Hour) }
	for _, age := range []time.Duration{-time.Hour, 2 * ttl} { // in a grant, and in the renewal that verifies a grant
		bubble(t, func(t *testing.T) {
			f := &fake{
				acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) { return stamped(age)(l), nil },
				renew:   func(context.Context, *fakeLock) (driver.Instant, error) { return future(), nil },
			}
			lease := mustAcquire(t, open(t, f), "name")
			look := func(when string) {
				if d := time.Until(lease.Deadline()); d > validity {
					t.Errorf("Deadline is %v from now %s, want %v at most", d, when, validity)
				}
			}
			look("after the grant")
			if err := lease.Renew(callerContext(t)); err != nil {
				t.Fatalf("Renew = %v", err)
			}
			look("after Renew")
			time.Sleep(ttl)
			look("after a renewal in the background")
			f.tell(0, errRevoked)
		})
	}
}

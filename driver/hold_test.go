package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestMaxHold(t *testing.T) {
	for _, tc := range []struct {
		name string
		hold time.Duration
		opts []locker.Option
		ends time.Duration
		why  error
	}{
		{"longer than the TTL", 5 * ttl, nil, 5 * ttl, locker.ErrMaxHold},
		{"shorter than the TTL", ttl / 5, nil, ttl / 5, locker.ErrMaxHold},
		{"the TTL comes first", 5 * ttl, []locker.Option{locker.WithoutRenewal()}, validity, nil},
		{"both at once", validity, []locker.Option{locker.WithoutRenewal()}, validity, locker.ErrMaxHold},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{}
				l := open(t, f)
				began := time.Now()
				lease := mustAcquire(t, l, "name", append(tc.opts, locker.WithMaxHold(tc.hold))...)
				if d := lease.Deadline().Sub(began); d != min(tc.hold, validity) {
					t.Errorf("Deadline is %v after the grant, want %v", d, min(tc.hold, validity))
				}
				err := endsAt(t, lease, began, tc.ends)
				matches(t, "Err", err, locker.ErrLost)
				if tc.why != nil {
					matches(t, "Err", err, tc.why)
				} else {
					matchesNone(t, "Err", err, locker.ErrMaxHold)
				}
				matches(t, "Release", lease.Release(t.Context()), locker.ErrLost)
				time.Sleep(ttl)
				if !f.lock(0).isRemoved() {
					t.Error("it was not removed")
				}
			})
		})
	}
}

func TestMaxHoldCountsFromTheReturnOfAcquire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant)
		l := open(t, &fake{acquire: queues(grants)})
		p := start(t, l, "name", locker.WithMaxHold(time.Second))
		time.Sleep(3 * ttl)
		grants <- grant
		lease := p.granted()
		matches(t, "Err", endsAt(t, lease, time.Now(), time.Second), locker.ErrMaxHold)
	})
}

// The time that it took to verify an old grant isn't taken off the longest hold.
func TestMaxHoldCountsFromTheVerification(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{
			acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) { return stamped(ttl)(l), nil },
			renew: func(context.Context, *fakeLock) (driver.Instant, error) {
				base := driver.Stamp()
				time.Sleep(time.Second)
				return base, nil
			},
		}
		lease := mustAcquire(t, open(t, f), "name", locker.WithMaxHold(time.Second))
		matches(t, "Err", endsAt(t, lease, time.Now(), time.Second), locker.ErrMaxHold)
	})
}

// Without a TTL a lease ends only by its holder or by the longest hold.
func TestNoTTL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := openWith(t, f, driver.Config{})
		lease := mustAcquire(t, l, "name")
		held := mustAcquire(t, l, "held", locker.WithMaxHold(time.Hour))
		if d := lease.Deadline(); !d.IsZero() {
			t.Errorf("Deadline = %v, want the zero time", d)
		}
		if d := time.Until(held.Deadline()); d != time.Hour {
			t.Errorf("Deadline is %v from now, want the longest hold", d)
		}
		matches(t, "Err", endsAt(t, held, time.Now(), time.Hour), locker.ErrMaxHold)
		time.Sleep(365 * 24 * time.Hour)
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v", err)
		}
		if n := len(f.renewed()); n > 0 {
			t.Errorf("%d renewals, want none", n)
		}
		if err := lease.Renew(callerContext(t)); err != nil {
			t.Errorf("Renew = %v", err)
		}
		if d := lease.Deadline(); !d.IsZero() {
			t.Errorf("Deadline after Renew = %v, want the zero time", d)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

// The lease shows what is in force, where a service rounds up.
func TestALongerTTLIsInForce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const inForce = 60 * time.Second
		f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			g := grant(l)
			g.TTL = inForce
			return g, nil
		}}
		l := open(t, f)
		began := time.Now()
		lease := mustAcquire(t, l, "name", locker.WithoutRenewal())
		matches(t, "Err", endsAt(t, lease, began, inForce-inForce/100-2*time.Millisecond), locker.ErrLost)
	})
}

// A TTL that is used up by the allowance for clocks leaves nothing to hold.
func TestATTLThatIsTooShort(t *testing.T) {
	const nothing = 2*time.Millisecond + 20_202 // less 1 % and 2 ms: exactly nothing
	for _, lasts := range []time.Duration{2 * time.Millisecond, nothing} {
		bubble(t, func(t *testing.T) {
			f := &fake{}
			_, err := open(t, f).Acquire(t.Context(), "name", locker.WithTTL(lasts))
			if err == nil {
				t.Fatalf("Acquire with a TTL of %v returned a lease that is over", lasts)
			}
			matchesNone(t, "Acquire", err, locker.ErrHeld, locker.ErrLost)
		})
	}
}

// A grant that breaks the contract is not handed out, and the caller learns why, even one that has
// waited.
func TestAGrantThatBreaksTheContract(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*driver.Grant)
	}{
		{"token 0", func(g *driver.Grant) { g.Token = 0 }},
		{"token below 0", func(g *driver.Grant) { g.Token = -1 }},
		{"a shorter TTL", func(g *driver.Grant) { g.TTL-- }},
		{"no TTL", func(g *driver.Grant) { g.TTL = 0 }},
	} {
		for _, wait := range []bool{false, true} {
			t.Run(tc.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
						if wait && l.count(&l.acquires) == 1 {
							return driver.Grant{}, driver.ErrQueued
						}
						g := grant(l)
						tc.change(&g)
						return g, nil
					}}
					l := open(t, f)
					p := giveUpAfter(t, l, time.Hour)
					matchesNone(t, "Acquire", p.failed(), locker.ErrHeld, context.DeadlineExceeded)
				})
			})
		}
	}
}

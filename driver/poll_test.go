package driver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// polls makes a service that gives this answer, and a journal of the requests. It stops a waiter
// that spins.
func polls(t *testing.T, answer error) (func(context.Context, *fakeLock) (driver.Grant, error), *journal) {
	var asked journal
	return func(ctx context.Context, _ *fakeLock) (driver.Grant, error) {
		if asked.note() == 100_000 {
			t.Error("the waiter spins")
			return driver.Grant{}, hang(ctx)
		}
		return driver.Grant{}, answer
	}, &asked
}

func TestPollingBacksOff(t *testing.T) {
	for _, answer := range []error{locker.ErrHeld, &driver.HeldError{}, &driver.HeldError{AskWithin: time.Hour}} {
		bubble(t, func(t *testing.T) {
			acquire, asked := polls(t, answer)
			p := start(t, open(t, &fake{acquire: acquire}), "name")
			time.Sleep(time.Minute)
			p.waits()
			at := asked.times()
			pause := 5 * time.Millisecond
			shorter, longer := 0, 0
			for i := 1; i < len(at); i++ {
				d := at[i].Sub(at[i-1])
				if d < pause/2 || d >= pause*3/2 {
					t.Errorf("question %d came after %v, want about %v", i, d, pause)
				}
				if d < pause {
					shorter++
				} else {
					longer++
				}
				pause = min(2*pause, 320*time.Millisecond)
			}
			if len(at) < 120 || len(at) > 400 {
				t.Errorf("%d questions in a minute", len(at))
			}
			if shorter < 20 || longer < 20 {
				t.Errorf("%d pauses were shorter and %d longer than the mean: no jitter", shorter, longer)
			}
		})
	}
}

// A hint that is shorter than the pause is used. A longer one isn't waited for, because the lock
// may be released before.
func TestPollingHonoursAHint(t *testing.T) {
	const after = 50 * time.Millisecond
	bubble(t, func(t *testing.T) {
		acquire, asked := polls(t, &driver.HeldError{AskWithin: after})
		p := start(t, open(t, &fake{acquire: acquire}), "name")
		time.Sleep(time.Minute)
		p.waits()
		at := asked.times()
		for i := 6; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < after/2 || d >= after*3/2 {
				t.Errorf("question %d came after %v, want about %v", i, d, after)
			}
		}
	})
}

// Whatever a driver computes as its hint, a waiter asks at a bounded rate.
func TestPollingIsBounded(t *testing.T) {
	for _, after := range []time.Duration{1, time.Microsecond, -1, -time.Hour, 1 << 62} {
		t.Run(after.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				acquire, asked := polls(t, &driver.HeldError{AskWithin: after})
				p := start(t, open(t, &fake{acquire: acquire}), "name")
				time.Sleep(10 * time.Second)
				p.waits()
				if n := len(asked.times()); n > 10*1000 || n < 10 {
					t.Errorf("%d questions in ten seconds", n)
				}
				p.cancel(nil)
				matches(t, "Acquire", p.failed(), context.Canceled)
			})
		})
	}
}

// A driver that doesn't block in the queue, as it must, costs calls at a bounded rate.
func TestQueueThatDoesNotBlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		acquire, asked := polls(t, driver.ErrQueued)
		p := start(t, open(t, &fake{acquire: acquire}), "name")
		time.Sleep(10 * time.Second)
		p.waits()
		if n := len(asked.times()); n > 10*1000 || n < 10 {
			t.Errorf("%d calls in ten seconds", n)
		}
		p.cancel(nil)
		matches(t, "Acquire", p.failed(), context.Canceled)
	})
}

func TestPollingIsNotRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: polled}
		p := start(t, open(t, f), "name")
		time.Sleep(5 * ttl)
		p.waits()
		if n := len(f.renewed()); n > 0 {
			t.Errorf("%d renewals of what is not queued", n)
		}
	})
}

// All requests of one wait are for the same acquisition, and one that is granted at last is a lease
// like any other.
func TestPollingUntilTheGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			if l.count(&l.acquires) < 100 {
				return driver.Grant{}, &driver.HeldError{AskWithin: time.Second}
			}
			return grant(l), nil
		}}
		l := open(t, f)
		lease := mustAcquire(t, l, "name")
		if lease.Token() != 1 {
			t.Errorf("Token = %v, want that of the first acquisition", lease.Token())
		}
		if d := time.Until(lease.Deadline()); d != validity {
			t.Errorf("Deadline is %v from now, want %v", d, validity)
		}
	})
}

// Like a waiter in a queue, a waiter that polls goes on waiting when its grant has expired.
func TestAPollingWaiterWaitsOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{
			acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
				switch {
				case l.n > 0:
					return grant(l), nil
				case l.count(&l.acquires) < 5:
					return driver.Grant{}, &driver.HeldError{AskWithin: time.Second}
				}
				return stamped(2 * ttl)(l), nil
			},
			renew: func(context.Context, *fakeLock) (driver.Instant, error) { return 0, locker.ErrLost },
		}
		if lease := mustAcquire(t, open(t, f), "name"); lease.Token() != 2 {
			t.Errorf("Token = %v, want the token of a second acquisition", lease.Token())
		}
	})
}

// A caller that has no lease yet doesn't see ErrLost.
func TestAcquireDoesNotFailWithErrLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{
			acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) { return stamped(2 * ttl)(l), nil },
			renew:   func(context.Context, *fakeLock) (driver.Instant, error) { return 0, locker.ErrLost },
		}
		_, err := open(t, f).Acquire(t.Context(), "name", locker.NoWait())
		if err == nil {
			t.Fatal("Acquire returned a lease that is over")
		}
		matchesNone(t, "Acquire", err, locker.ErrLost, locker.ErrHeld)
	})
}

// A caller whose first grant was lost already, without having waited, goes on as a waiter does.
func TestAGrantThatWasLostAtOnceIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{
			acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
				if l.n > 0 {
					return grant(l), nil
				}
				return stamped(2 * ttl)(l), nil
			},
			renew: func(context.Context, *fakeLock) (driver.Instant, error) { return 0, locker.ErrLost },
		}
		if lease := mustAcquire(t, open(t, f), "name"); lease.Token() != 2 {
			t.Errorf("Token = %v, want the token of a second acquisition", lease.Token())
		}
		if n := len(f.renewed()); n != 1 {
			t.Errorf("%d renewals, want one: the service's word is final", n)
		}
	})
}

// A driver may end the pause before the engine asks again. If it does so each time, the engine still asks
// at a bounded rate.
func TestPollingEndsAPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		when := make(chan struct{})
		acquire, asked := polls(t, &driver.HeldError{AskWhen: when})
		p := start(t, open(t, &fake{acquire: acquire}), "name")
		time.Sleep(time.Minute)
		before := len(asked.times())
		closed := time.Now()
		close(when)
		time.Sleep(8 * time.Millisecond)
		if n := len(asked.times()) - before; n == 0 {
			t.Errorf("the pause was ended, and the engine has not asked %v later", time.Since(closed))
		}
		time.Sleep(10 * time.Second)
		p.waits()
		if n := len(asked.times()) - before; n > 10*1000 || n < 1000 {
			t.Errorf("%d questions in ten seconds of pauses that end at once", n)
		}
	})
}

// What keeps a waiter out of the queue is said to the callers whose time runs out, also to those behind it,
// and doesn't change what their errors match.
func TestWaitersSayWhyTheyHaveNoPlace(t *testing.T) {
	for _, c := range []struct {
		name  string
		last  error // the answer before they give up
		notes bool
	}{
		{"no place", &driver.HeldError{Why: errService}, true},
		{"a place", driver.ErrQueued, false},
		{"held", &driver.HeldError{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
					switch n := l.count(&l.acquires); { // the second caller may become the head in the last moment
					case l.n == 0 && n == 1:
						return driver.Grant{}, &driver.HeldError{Why: errService}
					case n > 2 && errors.Is(c.last, driver.ErrQueued):
						return driver.Grant{}, hang(ctx)
					}
					return driver.Grant{}, c.last
				}}
				l := open(t, f)
				for _, p := range []*pending{giveUpAfter(t, l, ttl), giveUpAfter(t, l, ttl)} {
					err := p.failed()
					matches(t, "Acquire", err, locker.ErrHeld, context.DeadlineExceeded)
					matchesNone(t, "Acquire", err, errService)
					if notes := strings.Contains(err.Error(), errService.Error()); notes != c.notes {
						t.Errorf("Acquire = %v, says why it has no place: %v, want %v", err, notes, c.notes)
					}
				}
			})
		})
	}
}

// A grant is the end of what is said about an earlier answer.
func TestWaitersBehindAGrantHaveNothingToSay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			switch {
			case l.n > 0:
				return driver.Grant{}, hang(ctx)
			case l.count(&l.acquires) == 1:
				return driver.Grant{}, &driver.HeldError{Why: errService}
			}
			return grant(l), nil
		}}
		l := open(t, f)
		first := start(t, l, "name")
		first.waits()
		behind := giveUpAfter(t, l, 500*time.Millisecond)
		first.granted()
		err := behind.failed()
		matches(t, "Acquire", err, locker.ErrHeld)
		if strings.Contains(err.Error(), errService.Error()) {
			t.Errorf("Acquire = %v, and the lock was granted since", err)
		}
	})
}

package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// polled is a service that always answers at once that the lock is held.
func polled(context.Context, *fakeLock) (driver.Grant, error) {
	return driver.Grant{}, &driver.HeldError{AskWithin: time.Minute}
}

func TestNoWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		lease := mustAcquire(t, l, "name", locker.NoWait())
		if req := f.lock(0).req; !req.NoWait {
			t.Errorf("the driver's request = %+v, want NoWait", req)
		}
		f.acquire = polled
		_, err := l.Acquire(t.Context(), "name", locker.NoWait())
		matches(t, "Acquire", err, locker.ErrHeld)
		matchesNone(t, "Acquire", err, context.DeadlineExceeded, context.Canceled)
		f.acquire = func(context.Context, *fakeLock) (driver.Grant, error) { return driver.Grant{}, locker.ErrHeld }
		_, err = l.Acquire(t.Context(), "name", locker.NoWait())
		matches(t, "Acquire", err, locker.ErrHeld)
		f.acquire = func(context.Context, *fakeLock) (driver.Grant, error) { return driver.Grant{}, errService }
		_, err = l.Acquire(t.Context(), "name", locker.NoWait())
		matches(t, "Acquire", err, errService)
		matchesNone(t, "Acquire", err, locker.ErrHeld)
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v after others have asked", err)
		}
	})
}

// While the head knows that the lock is held, a request with NoWait asks nothing.
func TestNoWaitWhileTheHeadHasItsAnswer(t *testing.T) {
	for _, tc := range []struct {
		name    string
		acquire func(context.Context, *fakeLock) (driver.Grant, error)
	}{
		{"polling", polled},
		{"queued", queues(nil)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{acquire: tc.acquire}
				l := open(t, f)
				head := start(t, l, "name")
				head.waits()
				began := time.Now()
				_, err := l.Acquire(t.Context(), "name", locker.NoWait())
				matches(t, "Acquire", err, locker.ErrHeld)
				if d := time.Since(began); d > 0 {
					t.Errorf("the answer took %v", d)
				}
				if n := f.lock(1).count(&f.lock(1).acquires); n > 0 {
					t.Errorf("%d requests, want none", n)
				}
				head.waits()
			})
		})
	}
}

// While the head has no answer nobody knows, so a request with NoWait asks.
func TestNoWaitWhileTheHeadHasNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.req.NoWait {
				return grant(l), nil
			}
			return driver.Grant{}, hang(ctx)
		}}
		l := open(t, f)
		head := start(t, l, "name")
		head.waits()
		lease, err := l.Acquire(t.Context(), "name", locker.NoWait())
		if err != nil {
			t.Fatalf("Acquire = %v", err)
		}
		head.waits()
		lease.Release(t.Context())
	})
}

// A service that doesn't answer is not a lock that is held.
func TestNoWaitAndNoAnswer(t *testing.T) {
	ignoringBubble(t, func(t *testing.T) {
		f := &fake{acquire: func(context.Context, *fakeLock) (driver.Grant, error) {
			time.Sleep(time.Hour) // ignores its context
			return driver.Grant{}, &driver.HeldError{AskWithin: time.Second}
		}}
		l := open(t, f)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := startWith(t, ctx, l, "name", locker.NoWait())
		err := p.failed()
		if p.took != time.Second {
			t.Errorf("Acquire took %v, want a second", p.took)
		}
		matches(t, "Acquire", err, context.DeadlineExceeded)
		matchesNone(t, "Acquire", err, locker.ErrHeld)
		time.Sleep(2 * time.Hour)
		if !f.lock(0).isRemoved() {
			t.Error("the request that was left behind was not removed")
		}
	})
}

// giveUpAfter waits for the lock for that long, and returns the error.
func giveUpAfter(t *testing.T, l locker.Locker, d time.Duration) *pending {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return startWith(t, ctx, l, "name")
}

func TestAWaitThatTimesOut(t *testing.T) {
	black := func(ctx context.Context, _ *fakeLock) (driver.Grant, error) { return driver.Grant{}, hang(ctx) }
	for _, tc := range []struct {
		name    string
		acquire func(context.Context, *fakeLock) (driver.Grant, error)
		held    bool
	}{
		{"polling", polled, true},
		{"queued", queues(nil), true},
		{"no answer", black, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{acquire: tc.acquire}
				l := open(t, f)
				head := giveUpAfter(t, l, 3*time.Second)
				head.waits()
				behind := giveUpAfter(t, l, 2*time.Second)
				for _, p := range []*pending{behind, head} {
					err := p.failed()
					matches(t, "Acquire", err, context.DeadlineExceeded)
					matchesNone(t, "Acquire", err, context.Canceled)
					if tc.held {
						matches(t, "Acquire", err, locker.ErrHeld)
					} else {
						matchesNone(t, "Acquire", err, locker.ErrHeld)
					}
				}
				if behind.took != 2*time.Second || head.took != 3*time.Second {
					t.Errorf("they waited for %v and %v, want 2s and 3s", behind.took, head.took)
				}
			})
		})
	}
}

// The waiters rely on the answer to one head for a moment after the next became head, and then no
// more.
func TestTheAnswerToThePreviousHead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n == 0 {
				return driver.Grant{}, &driver.HeldError{AskWithin: time.Minute}
			}
			return driver.Grant{}, hang(ctx)
		}}
		l := open(t, f)
		first := start(t, l, "name")
		first.waits()
		giveUpAfter(t, l, time.Hour).waits() // the next head
		soon, late := giveUpAfter(t, l, 900*time.Millisecond), giveUpAfter(t, l, 1100*time.Millisecond)
		first.cancel(nil)
		matches(t, "Acquire", soon.failed(), locker.ErrHeld, context.DeadlineExceeded)
		matchesNone(t, "Acquire", late.failed(), locker.ErrHeld)
	})
}

// A late answer to the previous head, which has gone, doesn't answer the present head's request.
func TestALateAnswerToAHeadThatHasGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n > 0 {
				return driver.Grant{}, hang(ctx)
			}
			time.Sleep(2 * time.Second) // ignores its context
			return driver.Grant{}, &driver.HeldError{AskWithin: time.Minute}
		}}
		l := open(t, f)
		first := start(t, l, "name")
		first.waits()
		giveUpAfter(t, l, time.Hour).waits()
		behind := giveUpAfter(t, l, 10*time.Second)
		behind.waits()
		first.cancel(nil)
		matchesNone(t, "Acquire", behind.failed(), locker.ErrHeld)
	})
}

func TestAFailureOfTheServiceFailsTheHeadAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			time.Sleep(time.Second)
			if l.n < 2 {
				return driver.Grant{}, errService
			}
			return grant(l), nil
		}}
		all := startAll(t, open(t, f), "name", 3)
		for i, p := range all[:2] {
			err := p.failed()
			matches(t, "Acquire", err, errService)
			matchesNone(t, "Acquire", err, locker.ErrHeld)
			if want := time.Duration(i+1) * time.Second; p.took != want {
				t.Errorf("waiter %d failed after %v, want %v", i, p.took, want)
			}
		}
		all[2].granted()
	})
}

// A waiter behind a head whose request failed has no answer from the service, even if an earlier
// head had one.
func TestAFailureReplacesTheAnswerThatTheLockIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			switch {
			case l.n > 0:
				return driver.Grant{}, hang(ctx)
			case l.count(&l.acquires) == 1:
				return driver.Grant{}, driver.ErrQueued
			}
			time.Sleep(time.Second)
			return driver.Grant{}, errService
		}}
		l := open(t, f)
		start(t, l, "name").waits()
		start(t, l, "name").waits()
		behind := giveUpAfter(t, l, 1500*time.Millisecond)
		matchesNone(t, "Acquire", behind.failed(), locker.ErrHeld)
	})
}

// A grant to the previous head is an answer: the lock is held, by this process itself.
func TestAGrantSaysThatTheLockIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n > 0 {
				return driver.Grant{}, hang(ctx)
			}
			time.Sleep(time.Second)
			return grant(l), nil
		}}
		l := open(t, f)
		first := start(t, l, "name")
		first.waits()
		start(t, l, "name").waits()
		behind := giveUpAfter(t, l, 1900*time.Millisecond)
		first.granted()
		matches(t, "Acquire", behind.failed(), locker.ErrHeld, context.DeadlineExceeded)
	})
}

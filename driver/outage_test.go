package driver_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// While the head is queued nobody asks, so its renewals distinguish a service that has failed from
// a lock that is held.
func TestAnOutageBehindAQueuedHead(t *testing.T) {
	for _, failing := range []func(context.Context) error{hang, func(context.Context) error { return errService }} {
		bubble(t, func(t *testing.T) {
			var out atomic.Bool
			f := &fake{
				renew: func(ctx context.Context, _ *fakeLock) (driver.Instant, error) {
					if out.Load() {
						return 0, failing(ctx)
					}
					return driver.Stamp(), nil
				},
				acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
					if l.n > 0 {
						return driver.Grant{}, errService
					}
					return queues(nil)(ctx, l)
				},
			}
			l := open(t, f)
			start(t, l, "name").waits()
			try := func() error {
				_, err := locker.TryAcquire(t.Context(), l, "name")
				return err
			}
			time.Sleep(2 * ttl)
			matches(t, "TryAcquire while all is well", try(), locker.ErrHeld)
			matches(t, "Acquire while all is well", giveUpAfter(t, l, ttl).failed(), locker.ErrHeld)
			out.Store(true)
			time.Sleep(ttl)
			matchesNone(t, "TryAcquire in an outage", try(), locker.ErrHeld)
			matchesNone(t, "Acquire in an outage", giveUpAfter(t, l, ttl).failed(), locker.ErrHeld)
			out.Store(false)
			time.Sleep(ttl)
			matches(t, "TryAcquire after it", try(), locker.ErrHeld)
		})
	}
}

// slowCause is the cause of a context's end. It takes a moment to compare itself with another error.
type slowCause struct{ error }

func (slowCause) Is(error) bool {
	time.Sleep(time.Millisecond)
	return false
}

// The same holds for the head itself, whichever of its two goroutines notices first that its time
// is up: its acquisition compares errors before it reports, and the caller may be faster.
func TestAnOutageAndTheQueuedHeadItself(t *testing.T) {
	for range 50 {
		bubble(t, func(t *testing.T) {
			f := &fake{
				renew:   func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService },
				acquire: queues(nil),
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 2*ttl, slowCause{errCause})
			defer cancel()
			err := startWith(t, ctx, open(t, f), "name").failed()
			matchesNone(t, "Acquire in an outage", err, locker.ErrHeld)
		})
	}
}

// A head that polls has had an answer. When its next request gets none, those after it stop relying
// on that answer a second later, and a request with NoWait asks by itself at once.
func TestAnOutageBehindAPollingHead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			switch {
			case l.req.NoWait:
				return driver.Grant{}, errService
			case l.count(&l.acquires) == 1:
				return driver.Grant{}, &driver.HeldError{AskWithin: time.Second}
			}
			return driver.Grant{}, hang(ctx)
		}}
		l := open(t, f)
		start(t, l, "name").waits()
		soon, late := giveUpAfter(t, l, 900*time.Millisecond), giveUpAfter(t, l, 1100*time.Millisecond)
		time.Sleep(100 * time.Millisecond)
		_, err := l.Acquire(t.Context(), "name", locker.NoWait())
		matches(t, "Acquire with NoWait", err, errService)
		matches(t, "Acquire", soon.failed(), locker.ErrHeld, context.DeadlineExceeded)
		matchesNone(t, "Acquire", late.failed(), locker.ErrHeld)
	})
}

// A grant that came with an old base is confirmed by a renewal. While that has no answer, nobody relies
// on the earlier answer that the lock was held by somebody else.
func TestAnOutageWhileAGrantIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant)
		f := &fake{
			acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
				if l.n > 0 {
					return driver.Grant{}, errService
				}
				return queues(grants)(ctx, l)
			},
			renew: func(ctx context.Context, _ *fakeLock) (driver.Instant, error) { return 0, hang(ctx) },
		}
		l := open(t, f)
		head := giveUpAfter(t, l, ttl/2)
		synctest.Wait()
		grants <- stamped(ttl)
		behind := giveUpAfter(t, l, ttl/2)
		synctest.Wait()
		_, err := locker.TryAcquire(t.Context(), l, "name")
		matches(t, "TryAcquire", err, errService)
		matchesNone(t, "Acquire of the head", head.failed(), locker.ErrHeld)
		matchesNone(t, "Acquire", behind.failed(), locker.ErrHeld)
	})
}

// An outage begins with the first renewal of a queued head that has no answer, before that has
// failed.
func TestAnOutageBeginsWithARenewalThatHasNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{
			acquire: queues(nil),
			renew:   func(ctx context.Context, _ *fakeLock) (driver.Instant, error) { return 0, hang(ctx) },
		}
		l := open(t, f)
		start(t, l, "name").waits()
		behind := giveUpAfter(t, l, ttl/3+1100*time.Millisecond)
		err := behind.failed()
		if n := len(f.renewed()); n != 1 {
			t.Errorf("%d renewals so far, want the first to be under way", n)
		}
		matchesNone(t, "Acquire", err, locker.ErrHeld)
	})
}

// An outage of the past says nothing of a head that polls since it has lost its place: each poll is
// answered.
func TestAnOutageBeforeTheHeadPolls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{
			acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
				switch l.count(&l.acquires) {
				case 1:
					return driver.Grant{}, driver.ErrQueued
				case 2:
					time.Sleep(ttl / 2)
				}
				return driver.Grant{}, &driver.HeldError{AskWithin: time.Second}
			},
			renew: func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService },
		}
		l := open(t, f)
		start(t, l, "name").waits()
		matches(t, "Acquire", giveUpAfter(t, l, ttl).failed(), locker.ErrHeld, context.DeadlineExceeded)
		if len(f.renewed()) == 0 {
			t.Error("no renewal has failed")
		}
	})
}

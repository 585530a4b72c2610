package driver_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var errCause = errors.New("the user went away")

// At whatever step a caller gives up: it returns at once, what it has left is removed until the
// service confirms it, nothing of it is renewed, and the next waiter gets its turn.
func TestCancelAtEveryStepLeavesNothing(t *testing.T) {
	const when = time.Second
	type acquire = func(context.Context, *fakeLock) (driver.Grant, error)
	late := func(answer func(l *fakeLock) (driver.Grant, error)) acquire {
		return func(_ context.Context, l *fakeLock) (driver.Grant, error) { // ignores its context
			time.Sleep(2 * ttl)
			return answer(l)
		}
	}
	granted := func(l *fakeLock) (driver.Grant, error) { return grant(l), nil }
	held := func(*fakeLock) (driver.Grant, error) { return driver.Grant{}, driver.ErrQueued }
	failed := func(*fakeLock) (driver.Grant, error) { return driver.Grant{}, errService }
	queuedThen := func(next acquire) acquire {
		return func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.count(&l.acquires) == 1 {
				return held(l)
			}
			return next(ctx, l)
		}
	}
	obedient := func(ctx context.Context, _ *fakeLock) (driver.Grant, error) { return driver.Grant{}, hang(ctx) }
	stale := func(_ context.Context, l *fakeLock) (driver.Grant, error) { return stamped(time.Hour)(l), nil }

	for _, tc := range []struct {
		name    string
		acquire acquire
		renew   func(context.Context, *fakeLock) (driver.Instant, error)
	}{
		{"during the first request", obedient, nil},
		{"during a first request that is granted later", late(granted), nil},
		{"during a first request that is granted too late", late(func(l *fakeLock) (driver.Grant, error) {
			return stamped(2 * ttl)(l), nil
		}), nil},
		{"during a first request that is queued later", late(held), nil},
		{"during a first request that fails later", late(failed), nil},
		{"in the service's queue", queuedThen(obedient), nil},
		{"in the service's queue, granted later", queuedThen(late(granted)), nil},
		{"in the service's queue, asked to poll later", queuedThen(late(func(*fakeLock) (driver.Grant, error) {
			return driver.Grant{}, &driver.HeldError{AskWithin: time.Second}
		})), nil},
		{"between two polls", func(context.Context, *fakeLock) (driver.Grant, error) {
			return driver.Grant{}, &driver.HeldError{AskWithin: time.Minute}
		}, nil},
		{"while a grant is proved", stale, func(ctx context.Context, _ *fakeLock) (driver.Instant, error) { return 0, hang(ctx) }},
		{"while a grant is proved, which comes later", stale, func(context.Context, *fakeLock) (driver.Instant, error) {
			time.Sleep(2 * ttl)
			return driver.Stamp(), nil
		}},
		{"between two proofs", stale, func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService }},
		{"while queueing again", func(context.Context, *fakeLock) (driver.Grant, error) {
			return driver.Grant{}, driver.ErrQueued
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ignoresFirst := strings.HasPrefix(tc.name, "during a first request that")
			bubbleFor(ignoresFirst)(t, func(t *testing.T) {
				f := &fake{renew: tc.renew}
				var l locker.Locker
				f.acquire = func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
					if l.n == 1 {
						return grant(l), nil // the next waiter
					}
					if tc.name == "while queueing again" {
						l.lost(errService)
					}
					return tc.acquire(ctx, l)
				}
				f.release = func(_ context.Context, l *fakeLock) error {
					if l.count(&l.releases) < 4 {
						return errService
					}
					return nil
				}
				l = open(t, f)
				first := start(t, l, "name")
				first.waits()
				next := start(t, l, "name")
				time.Sleep(when)
				next.waits()
				renewed := len(f.renewed())
				first.cancel(errCause)
				err := first.failed()
				if first.took != when {
					t.Errorf("Acquire returned after %v, want %v", first.took, when)
				}
				matches(t, "Acquire", err, context.Canceled, errCause)
				matchesNone(t, "Acquire", err, locker.ErrHeld, context.DeadlineExceeded)
				if lease := next.granted(); next.took != when {
					t.Errorf("the next waiter got %v after %v, want it at once", lease.Token(), next.took)
				}
				next.lease.Release(t.Context())
				time.Sleep(4 * ttl)
				if n := len(f.renewed()); n > renewed {
					t.Errorf("%d renewals after the caller had gone", n-renewed)
				}
				for _, lock := range f.prepared() {
					if lock.n != 1 && lock.count(&lock.acquires) > 0 && !lock.isRemoved() {
						t.Errorf("acquisition %d was not removed", lock.n)
					}
				}
			})
		})
	}
}

func TestCancelInTheLocalQueueAsksForNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: queues(nil)}
		l := open(t, f)
		all := startAll(t, l, "name", 4)
		all[2].cancel(errCause)
		matches(t, "Acquire", all[2].failed(), context.Canceled, errCause)
		all[1].cancel(errCause)
		matches(t, "Acquire", all[1].failed(), context.Canceled, errCause)
		all[0].cancel(errCause)
		matches(t, "Acquire", all[0].failed(), context.Canceled, errCause)
		all[3].waits()
		for n, want := range []int{2, 0, 0, 2} {
			if got := f.lock(n).count(&f.lock(n).acquires); got != want {
				t.Errorf("waiter %d made %d requests, want %d", n, got, want)
			}
		}
	})
}

// With a context that is over before the call, nobody is asked anything.
func TestAContextThatIsOverBeforeTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errCause)
		for _, opts := range [][]locker.Option{nil, {locker.NoWait()}} {
			_, err := l.Acquire(ctx, "name", opts...)
			matches(t, "Acquire", err, context.Canceled, errCause)
			matchesNone(t, "Acquire", err, locker.ErrHeld)
		}
		expired, cancelExpired := context.WithDeadline(t.Context(), time.Now())
		defer cancelExpired()
		_, err := l.Acquire(expired, "name")
		matches(t, "Acquire", err, context.DeadlineExceeded)
		matchesNone(t, "Acquire", err, locker.ErrHeld)
		if n := len(f.prepared()); n > 0 {
			t.Errorf("the driver was asked for %d locks", n)
		}
	})
}

// A cancel at the instant of the grant has one of two outcomes: the caller has the lease, or nobody
// has it and it is removed.
func TestCancelRacesWithTheGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			time.Sleep(time.Millisecond)
			return grant(l), nil
		}}
		l := open(t, f)
		won := 0
		for n := range 1000 {
			p := start(t, l, "name")
			time.Sleep(time.Millisecond - time.Duration(rand.N(2)))
			p.cancel(errCause)
			<-p.done
			lock := f.lock(n)
			if p.err != nil {
				matches(t, "Acquire", p.err, context.Canceled)
			} else {
				won++
				if lock.isRemoved() {
					t.Fatal("a lease was returned, and removed")
				}
				matches(t, "Release", errors.Join(p.lease.Err(), p.lease.Release(t.Context())))
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if !lock.isRemoved() {
				t.Fatalf("acquisition %d is an orphan", n)
			}
		}
		if won == 0 || won == 1000 {
			t.Errorf("%d of 1000 had the lease; the race was not tried", won)
		}
		if n := len(f.renewed()); n > 0 {
			t.Errorf("%d renewals", n)
		}
	})
}

// looked is a context that does something right after somebody has looked at it.
type looked struct {
	context.Context
	then func()
}

func (c *looked) Err() error {
	err := c.Context.Err()
	c.then()
	return err
}

// The caller leaves while the engine looks at its context. An engine that makes the request on the
// goroutine of the caller looks at it there.
func TestCancelAfterTheLastLook(t *testing.T) {
	ignoringBubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(callerContext(t))
		defer cancel()
		var granting atomic.Bool
		f := &fake{}
		f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			granting.Store(l.n == 0)
			return grant(l), nil
		}
		left := make(chan struct{})
		look := func() {
			if granting.CompareAndSwap(true, false) {
				cancel()
				<-left
			}
		}
		l := open(t, f)
		p := startWith(t, &looked{ctx, look}, l, "name")
		<-p.done
		close(left)
		matches(t, "Acquire", p.failed(), context.Canceled)
		synctest.Wait()
		if !f.lock(0).isRemoved() {
			t.Error("the grant that nobody waited for was not removed")
		}
		mustAcquire(t, l, "name")
	})
}

// The end of Acquire's context leaves the lease alone.
func TestTheContextDoesNotBoundTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		p := start(t, open(t, f), "name")
		lease := p.granted()
		p.cancel(errCause)
		time.Sleep(10 * ttl)
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v after the end of Acquire's context", err)
		}
	})
}

// doneFirst is a context whose Done is closed before its Err is set, against the contract of
// context.Context.
type doneFirst struct {
	context.Context
	done chan struct{}
}

func (c doneFirst) Done() <-chan struct{} { return c.done }
func (doneFirst) Err() error              { return nil }

// Package context itself panics on such a context when another context is derived from it. A waiter
// behind another one derives none.
func TestAContextThatIsDoneBeforeItsErrIsSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{acquire: polled})
		head := start(t, l, "name")
		head.waits()
		ctx := doneFirst{t.Context(), make(chan struct{})}
		time.AfterFunc(time.Second, func() { close(ctx.done) })
		lease, err := l.Acquire(ctx, "name")
		if err == nil {
			t.Errorf("Acquire = %T and no error, though the caller has given up", lease)
		}
		matches(t, "Acquire", err, context.Canceled)
		if err != nil && !strings.Contains(err.Error(), "context canceled") {
			t.Errorf("Acquire = %v, want it to say that the context is over", err)
		}
	})
}

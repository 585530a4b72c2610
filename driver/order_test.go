package driver_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Waiters are served in the order in which they came, and only one of them talks to the service,
// however each head leaves.
func TestLocalOrder(t *testing.T) {
	const waiters = 1000
	ways := []string{"granted", "failed", "cancelled", "lost", "polls", "queued", "stale", "gone before"}
	type key struct{}
	type caller struct {
		n      int
		way    string
		cancel context.CancelFunc
		tries  int
	}
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []int            // the callers, in the order in which they first asked
		var asking context.Context // of the last request: over with it, or when its caller has left
		ask := func(ctx context.Context, c *caller) {
			mu.Lock()
			defer mu.Unlock()
			if asking != nil && asking.Err() == nil {
				t.Error("two heads ask at once")
			}
			asking = ctx
			if c.tries++; c.tries == 1 {
				asked = append(asked, c.n)
			}
		}
		f := &fake{}
		f.acquire = func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			request, done := context.WithCancel(ctx)
			defer done()
			c := ctx.Value(key{}).(*caller)
			ask(request, c)
			time.Sleep(time.Millisecond)
			switch {
			case c.way == "failed":
				return driver.Grant{}, errService
			case c.way == "cancelled":
				c.cancel()
				return driver.Grant{}, hang(ctx)
			case c.way == "lost" && c.tries == 1:
				l.lost(errRevoked)
				return driver.Grant{}, driver.ErrQueued
			case c.way == "polls" && c.tries < 3:
				return driver.Grant{}, &driver.HeldError{AskWithin: time.Millisecond}
			case c.way == "queued" && c.tries == 1:
				return driver.Grant{}, driver.ErrQueued
			case c.way == "stale":
				return stamped(time.Hour)(l), nil
			}
			return grant(l), nil
		}
		l := open(t, f)
		var all []*pending
		begin := func(n int, way string) *caller {
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			c := &caller{n: n, way: way, cancel: cancel}
			all = append(all, startWith(t, context.WithValue(ctx, key{}, c), l, "name"))
			synctest.Wait()
			return c
		}
		gate := mustHold(t, l, f)
		var want []int
		for n := range waiters {
			if c := begin(n, ways[n%len(ways)]); c.way == "gone before" {
				c.cancel()
			} else {
				want = append(want, n)
			}
		}
		close(gate)
		for n, p := range all {
			<-p.done
			switch way := ways[n%len(ways)]; {
			case way == "failed":
				matches(t, way, p.err, errService)
			case way == "cancelled" || way == "gone before":
				matches(t, way, p.err, context.Canceled)
			case p.err != nil:
				t.Errorf("%s: Acquire = %v", way, p.err)
			default:
				p.lease.Release(t.Context())
			}
		}
		if !slices.Equal(asked, want) {
			t.Errorf("they asked in the order %v", asked)
		}
	})
}

// mustHold starts a waiter that is the head of the queue for "name" until the channel is closed.
func mustHold(t *testing.T, l locker.Locker, f *fake) chan struct{} {
	gate := make(chan struct{})
	normal := f.acquire
	f.acquire = func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
		if l.n == 0 {
			<-gate
			return driver.Grant{}, errService
		}
		return normal(ctx, l)
	}
	start(t, l, "name").waits()
	return gate
}

// Queues are by name.
func TestNamesDoNotWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.req.Name == "a" {
				return driver.Grant{}, hang(ctx)
			}
			return grant(l), nil
		}}
		l := open(t, f)
		start(t, l, "a").waits()
		for _, name := range []string{"b", "A", "a/b", " a"} {
			mustAcquire(t, l, name)
		}
	})
}

// Two requests to the same locker are two holders: no lease is shared, and no lock is reentrant.
func TestEachWaiterMakesItsOwnAcquisition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		a, b := mustAcquire(t, l, "name"), mustAcquire(t, l, "name", locker.NoWait()) // this fake grants everything
		if a.Token() == b.Token() {
			t.Error("two leases have one token")
		}
		if err := a.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		if err := b.Err(); err != nil {
			t.Errorf("Err = %v after the release of the other", err)
		}
	})
}

// The late answer to a head that has left changes nothing for those that are still in the queue: a
// newcomer comes after them.
func TestAHeadThatHasLeftDoesNotLeaveTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n > 0 {
				return driver.Grant{}, hang(ctx)
			}
			time.Sleep(time.Second) // ignores its context
			return driver.Grant{}, errService
		}}
		l := open(t, f)
		all := startAll(t, l, "name", 3)
		all[0].cancel(nil)
		matches(t, "Acquire", all[0].failed(), context.Canceled)
		time.Sleep(2 * time.Second)
		newcomer := start(t, l, "name")
		newcomer.waits()
		for n, want := range []int{1, 1, 0, 0} {
			if got := f.lock(n).count(&f.lock(n).acquires); got != want {
				t.Errorf("waiter %d made %d requests, want %d", n, got, want)
			}
		}
		for _, p := range []*pending{newcomer, all[2], all[1]} { // none is on its way out when the test ends
			p.cancel(nil)
			matches(t, "Acquire", p.failed(), context.Canceled)
		}
	})
}

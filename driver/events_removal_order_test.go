package driver_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// heldUp is a caller's context that holds up a call of Acquire between the end of an acquisition and
// the outcome of the call: there the engine ends the context of the driver's call, which asks this one
// for its channel.
type heldUp struct {
	context.Context
	armed, over atomic.Bool
	meanwhile   func()
}

func (c *heldUp) Done() <-chan struct{} {
	if c.armed.CompareAndSwap(true, false) {
		c.meanwhile()
		time.Sleep(time.Second)
	}
	return c.Context.Done()
}

// Err may return an error while the channel isn't closed: that would end the context of the driver's
// call too early.
func (c *heldUp) Err() error {
	if c.over.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// However long it takes to note what has become of a call, the events of the removal come after that.
func TestObserveTheOutcomeBeforeTheRemoval(t *testing.T) {
	fails := func(*heldUp, *fakeLock) (driver.Grant, error) { return driver.Grant{}, errService }
	for _, tc := range []struct {
		name   string
		answer func(ctx *heldUp, l *fakeLock) (driver.Grant, error) // to the first request
		opts   []locker.Option
		closes bool // meanwhile
		panics bool
		want   locker.EventKind // comes first
	}{
		{name: "failed", answer: fails, want: locker.EventRefused},
		{name: "failed, and closed", answer: fails, closes: true, want: locker.EventRefused},
		{name: "held", answer: func(*heldUp, *fakeLock) (driver.Grant, error) {
			return driver.Grant{}, locker.ErrHeld
		}, opts: []locker.Option{locker.NoWait()}, want: locker.EventRefused},
		{name: "given up", answer: func(ctx *heldUp, l *fakeLock) (driver.Grant, error) {
			ctx.over.Store(true)
			return fails(ctx, l)
		}, want: locker.EventRefused},
		{name: "granted and given up", answer: func(ctx *heldUp, l *fakeLock) (driver.Grant, error) {
			ctx.over.Store(true)
			return grant(l), nil
		}, want: locker.EventRefused},
		{name: "a grant that breaks the contract", answer: func(_ *heldUp, l *fakeLock) (driver.Grant, error) {
			g := grant(l)
			g.Token = 0
			return g, nil
		}, want: locker.EventRefused},
		{name: "an old grant that is lost", answer: func(ctx *heldUp, l *fakeLock) (driver.Grant, error) {
			ctx.armed.Store(false) // its renewal does that
			return stamped(time.Hour)(l), nil
		}, want: locker.EventRequeued},
		{name: "panic", answer: func(*heldUp, *fakeLock) (driver.Grant, error) { panic(errPanic) }, panics: true, want: locker.EventRefused},
	} {
		inBubble := bubble
		if tc.panics {
			inBubble = obeyingBubble
		}
		test := func(t *testing.T) {
			ctx := &heldUp{Context: callerContext(t), meanwhile: func() {}}
			f := &fake{
				acquire: func(call context.Context, l *fakeLock) (driver.Grant, error) {
					if l.n > 0 {
						return grant(l), nil
					}
					_ = call.Done() // so that the engine must end it
					time.Sleep(time.Second)
					ctx.armed.Store(true)
					return tc.answer(ctx, l)
				},
				renew: func(context.Context, *fakeLock) (driver.Instant, error) {
					time.Sleep(time.Second)
					ctx.armed.Store(true)
					return 0, locker.ErrLost
				},
				release: func(_ context.Context, l *fakeLock) error {
					if l.n == 0 && l.count(&l.releases) == 1 {
						return errService
					}
					return nil
				},
			}
			l := open(t, f)
			w := watch(t, l)
			if tc.closes {
				ctx.meanwhile = func() { go func() { _ = l.Close() }() }
			}
			_ = recovered(func() { _, _ = l.Acquire(ctx, "name", tc.opts...) })
			time.Sleep(2 * time.Second)
			if ctx.armed.Load() {
				t.Fatal("the call was not held up")
			}
			var kinds []locker.EventKind
			for _, e := range w.take() {
				kinds = append(kinds, e.Kind)
			}
			first, removing := slices.Index(kinds, tc.want), slices.Index(kinds, locker.EventRemoving)
			if first < 0 || removing < first || !slices.Contains(kinds[removing:], locker.EventRemoved) {
				t.Errorf("the events are %v, want %q before %q and %q", kinds, tc.want, locker.EventRemoving, locker.EventRemoved)
			}
		}
		t.Run(tc.name, func(t *testing.T) { inBubble(t, test) })
	}
}

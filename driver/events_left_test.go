package driver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// pausingContext is a context whose error is read long before it is used.
type pausingContext struct {
	context.Context
	pause func() // called once an error has been read
}

func (c *pausingContext) Err() error {
	err := c.Context.Err()
	if pause := c.pause; pause != nil {
		c.pause = nil
		pause()
	}
	return err
}

// A caller leaves while the engine processes the answer to its request: Refused is the last event of
// the call, except for a grant that nobody wants.
func TestObserveACallerThatLeavesDuringAnAnswer(t *testing.T) {
	for name, answer := range map[string]error{"held": locker.ErrHeld, "granted": nil} {
		t.Run(name, func(t *testing.T) {
			ignoringBubble(t, func(t *testing.T) {
				inner, cancel := context.WithCancel(callerContext(t))
				defer cancel()
				ctx := &pausingContext{Context: inner}
				l := open(t, &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
					ctx.pause = func() {
						cancel()
						time.Sleep(time.Second)
					}
					return grant(l), answer
				}})
				w := watch(t, l)
				_, err := l.Acquire(ctx, "name")
				matches(t, "Acquire", err, context.Canceled)
				time.Sleep(2 * time.Second)
				want := []locker.Event{{Kind: locker.EventRefused, ID: 1, Cause: context.Canceled}}
				if answer == nil {
					want = append(want, locker.Event{Kind: locker.EventAbandoned, ID: 1, Token: 1})
				}
				w.wants(t, want...)
				if s := statsOf(t, l); s.Abandoned != uint64(len(want)-1) {
					t.Errorf("Stats = %+v", s)
				}
			})
		})
	}
}

// A grant is abandoned also where it was too old to be handed out, and where the Locker was closed.
func TestObserveAbandonedLate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		takes  time.Duration // Acquire, whose grant counts from its beginning
		closes bool
	}{
		{"fresh, closed", 3 * time.Second, true},
		{"stale, given up", ttl * 3 / 4, false},
		{"stale, closed", ttl * 3 / 4, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ignoringBubble(t, func(t *testing.T) {
				l := open(t, &fake{leaves: true, acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
					g := grant(l)
					time.Sleep(tc.takes) // ignores its context
					return g, nil
				}})
				w := new(watcher)
				attach(t, l, w, locker.EventAbandoned|locker.EventRefused)
				p := start(t, l, "name")
				time.Sleep(tc.takes - time.Second)
				reason := context.Canceled
				if tc.closes {
					reason = locker.ErrClosed
					go func() { _ = l.Close() }()
				} else {
					p.cancel(nil)
				}
				matches(t, "Acquire", p.failed(), reason)
				time.Sleep(ttl)
				events := w.take()
				if len(events) != 2 || events[1].Kind != locker.EventAbandoned || events[1].Token != 1 || !errors.Is(events[0].Cause, reason) {
					t.Errorf("the events are %+v, want refused and abandoned", events)
				}
				if s := statsOf(t, l); s.Abandoned != 1 {
					t.Errorf("Stats = %+v", s)
				}
			})
		})
	}
}

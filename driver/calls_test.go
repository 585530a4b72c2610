package driver_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/driver"
)

// The contexts of a driver's calls come from contexts that may live for years. Each is ended with
// its call, before its time limit: so its parent doesn't keep it, and what the driver has attached
// to it is freed.
func TestEveryContextEndsWithItsCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type call struct {
			name string
			ctx  context.Context
		}
		var mu sync.Mutex
		var calls []call
		note := func(name string, ctx context.Context) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, call{name, ctx})
		}
		f := &fake{
			acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
				note("Acquire", ctx)
				return grant(l), nil
			},
			renew: func(ctx context.Context, _ *fakeLock) (driver.Instant, error) {
				note("Renew", ctx)
				return driver.Stamp(), nil
			},
			release: func(ctx context.Context, _ *fakeLock) error {
				note("Release", ctx)
				return nil
			},
			shut: func(ctx context.Context) error {
				note("Close", ctx)
				return nil
			},
		}
		l := open(t, f)
		lease, left := mustAcquire(t, l, "a"), mustAcquire(t, l, "b")
		if err := errors.Join(lease.Renew(callerContext(t)), lease.Release(t.Context())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl / 2) // the other one is renewed in the background
		if err := errors.Join(left.Err(), l.Close()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(calls) != 7 {
			t.Errorf("%d calls, want 7", len(calls))
		}
		for i, c := range calls {
			if !errors.Is(c.ctx.Err(), context.Canceled) {
				t.Errorf("call %d: Err = %v of the context of %s, want it ended with the call", i, c.ctx.Err(), c.name)
			}
		}
	})
}

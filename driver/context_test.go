package driver_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// during runs look with the contexts of one call of Acquire and one of Release, during the call,
// and afterwards with ended true.
func during(t *testing.T, look func(t *testing.T, call string, ctx context.Context, ended bool)) {
	obeyingBubble(t, func(t *testing.T) {
		calls := make(map[string]context.Context)
		f := &fake{
			acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
				calls["Acquire"] = ctx
				look(t, "Acquire", ctx, false)
				return grant(l), nil
			},
			release: func(ctx context.Context, _ *fakeLock) error {
				calls["Release"] = ctx
				look(t, "Release", ctx, false)
				return nil
			},
		}
		lease := mustAcquire(t, open(t, f), "name", locker.WithTTL(time.Hour))
		if err := lease.Release(callerContext(t)); err != nil {
			t.Errorf("Release = %v", err)
		}
		for call, ctx := range calls {
			look(t, call, ctx, true)
		}
	})
}

// Whatever a driver does with the context of a call: it ends with the call, and what was derived
// from it ends too, without a goroutine for each.
func TestTheContextOfACallEndsWithIt(t *testing.T) {
	type derive = func(ctx context.Context) context.Context
	for name, derived := range map[string]derive{
		"not used":   func(ctx context.Context) context.Context { return ctx },
		"waited for": func(ctx context.Context) context.Context { _ = ctx.Done(); return ctx },
		"with a cancel": func(ctx context.Context) context.Context {
			c, cancel := context.WithCancel(ctx)
			t.Cleanup(cancel)
			return c
		},
		"with a time limit": func(ctx context.Context) context.Context {
			c, cancel := context.WithTimeout(ctx, time.Minute)
			t.Cleanup(cancel)
			return c
		},
		"with a value": func(ctx context.Context) context.Context { return context.WithValue(ctx, t, t) },
	} {
		t.Run(name, func(t *testing.T) {
			kept := make(map[string]context.Context)
			during(t, func(t *testing.T, call string, ctx context.Context, ended bool) {
				if !ended {
					before := runtime.NumGoroutine()
					kept[call] = derived(ctx)
					if n := runtime.NumGoroutine() - before; n > 0 {
						t.Errorf("%s: %d goroutines for a context", call, n)
					}
				}
				for _, c := range []context.Context{ctx, kept[call]} {
					if c.Value(byCaller{}) == nil {
						t.Errorf("%s: the values of the caller's context are not in it", call)
					}
					if !ended {
						if err := errors.Join(c.Err(), context.Cause(c)); err != nil {
							t.Errorf("%s: %v during the call", call, err)
						}
						continue
					}
					time.Sleep(time.Hour) // past every deadline, which changes nothing
					matches(t, call, c.Err(), context.Canceled)
					matches(t, call, context.Cause(c), context.Canceled)
					<-c.Done()
				}
			})
		})
	}
}

// The context of Release ends at its deadline, whether anybody waits for that or not, and not with
// the caller's.
func TestTheContextOfReleaseEndsAtItsDeadline(t *testing.T) {
	for _, waits := range []bool{false, true} {
		obeyingBubble(t, func(t *testing.T) {
			f := &fake{release: func(ctx context.Context, _ *fakeLock) error {
				deadline, _ := ctx.Deadline()
				if left := time.Until(deadline); left != 5*time.Second {
					t.Errorf("the deadline is in %v, want 5s", left)
				}
				if waits {
					return hang(ctx)
				}
				time.Sleep(5*time.Second - 1)
				if err := ctx.Err(); err != nil {
					t.Errorf("Err = %v before the deadline", err)
				}
				time.Sleep(time.Nanosecond)
				matches(t, "Err", ctx.Err(), context.DeadlineExceeded)
				<-ctx.Done()
				matches(t, "Cause", context.Cause(ctx), context.DeadlineExceeded)
				return ctx.Err()
			}}
			f.leaves = true
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			lease := mustAcquire(t, open(t, f), "name")
			began := time.Now()
			err := lease.Release(ctx)
			matches(t, "Release", err, locker.ErrUnconfirmed, locker.ErrNoAnswer)
			matchesNone(t, "Release", err, context.DeadlineExceeded)
			if took := time.Since(began); took != 5*time.Second {
				t.Errorf("Release took %v, want 5s", took)
			}
		})
	}
}

// The context of Acquire ends with the caller's, with its cause, whether anybody waits for that or
// not.
func TestTheContextOfAcquireEndsWithTheCallers(t *testing.T) {
	for _, waits := range []bool{false, true} {
		obeyingBubble(t, func(t *testing.T) {
			f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
				if waits {
					<-ctx.Done()
				} else {
					time.Sleep(2 * time.Second)
				}
				matches(t, "Err", ctx.Err(), context.Canceled)
				matches(t, "Cause", context.Cause(ctx), errCause)
				return driver.Grant{}, ctx.Err()
			}}
			p := start(t, open(t, f), "name")
			time.AfterFunc(time.Second, func() { p.cancel(errCause) })
			matches(t, "Acquire", p.failed(), context.Canceled, errCause)
		})
	}
}

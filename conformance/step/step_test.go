package step_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/membackend"
)

// fixture is what the steps of a test work on.
type fixture struct {
	server   *membackend.Server
	l, other locker.Locker
	name     string
}

// TestSteps runs each step where its expectation is met, and where it is not. There the case must fail.
func TestSteps(t *testing.T) {
	const soon = 100 * time.Millisecond
	broken := errors.New("broken")
	for _, test := range []struct {
		what  string
		want  conformance.Verdict
		steps func(t conformance.T, f fixture)
	}{
		{"a free lock is free", conformance.Passed, func(t conformance.T, f fixture) {
			step.WantRising(t, step.WantFree(t, f.l, f.name), step.FreeWithin(t, 0, f.other, f.name))
		}},
		{"a held lock is held", conformance.Passed, func(t conformance.T, f fixture) {
			step.Acquire(t, f.l, f.name)
			step.WantHeld(t, f.other, f.name)
		}},
		{"a free lock is not held", conformance.Failed, func(t conformance.T, f fixture) {
			step.WantHeld(t, f.other, f.name)
		}},
		{"a held lock is not free", conformance.Failed, func(t conformance.T, f fixture) {
			step.Acquire(t, f.l, f.name)
			step.WantFree(t, f.other, f.name)
		}},
		{"a lock is free in time", conformance.Passed, func(t conformance.T, f fixture) {
			step.Acquire(t, f.l, f.name, locker.WithMaxHold(soon))
			step.FreeWithin(t, 2*soon, f.other, f.name)
		}},
		{"a lock is free too late", conformance.Failed, func(t conformance.T, f fixture) {
			step.Acquire(t, f.l, f.name, locker.WithMaxHold(2*soon))
			step.FreeWithin(t, soon, f.other, f.name)
		}},
		{"a lease is live", conformance.Passed, func(t conformance.T, f fixture) {
			step.WantLive(t, step.Acquire(t, f.l, f.name), f.other)
		}},
		{"a released lease is not live", conformance.Failed, func(t conformance.T, f fixture) {
			lease := step.Acquire(t, f.l, f.name)
			step.Release(t, lease)
			step.WantLive(t, lease, f.other)
		}},
		{"a lease is lost in time", conformance.Passed, func(t conformance.T, f fixture) {
			step.LostWithin(t, 2*soon, step.Acquire(t, f.l, f.name, locker.WithMaxHold(soon)))
		}},
		{"a lease is lost too late", conformance.Failed, func(t conformance.T, f fixture) {
			step.LostWithin(t, soon, step.Acquire(t, f.l, f.name, locker.WithMaxHold(2*soon)))
		}},
		{"a released lease is not lost", conformance.Failed, func(t conformance.T, f fixture) {
			lease := step.Acquire(t, f.l, f.name)
			step.Release(t, lease)
			step.LostWithin(t, soon, lease)
		}},
		{"a failed service is no held lock", conformance.Passed, func(t conformance.T, f fixture) {
			f.server.Fail(broken)
			if err := step.WantFailure(t, soon, f.l, f.name); !errors.Is(err, broken) {
				t.Errorf("WantFailure = %v, want %v", err, broken)
			}
			f.server.Fail(nil)
		}},
		{"a held lock is no failed service", conformance.Failed, func(t conformance.T, f fixture) {
			step.Acquire(t, f.l, f.name)
			step.WantFailure(t, soon, f.other, f.name)
		}},
		{"a free lock is no failed service", conformance.Failed, func(t conformance.T, f fixture) {
			step.WantFailure(t, soon, f.l, f.name)
		}},
		{"a token that doesn't rise", conformance.Failed, func(t conformance.T, _ fixture) {
			step.WantRising(t, 7, 7)
		}},
		{"a waiter is granted the lock", conformance.Passed, func(t conformance.T, f fixture) {
			lease := step.Acquire(t, f.l, f.name)
			waiters := []*step.Attempt{
				step.StartAcquire(t, f.l, f.name+"2", locker.WithTTL(time.Hour)), step.StartAcquire(t, f.other, f.name),
			}
			waiters[0].Granted(t, soon)
			waiters[1].WantPending(t)
			step.Release(t, lease)
			if i := step.FirstGranted(t, soon, waiters[1:]); i != 0 {
				t.Errorf("FirstGranted = %d, want 0", i)
			}
		}},
		{"a waiter that is granted the lock is not pending", conformance.Failed, func(t conformance.T, f fixture) {
			a := step.StartAcquire(t, f.l, f.name)
			a.Granted(t, soon)
			a.WantPending(t)
		}},
		{"no waiter is granted the lock", conformance.Failed, func(t conformance.T, f fixture) {
			step.Acquire(t, f.l, f.name)
			step.FirstGranted(t, soon, []*step.Attempt{step.StartAcquire(t, f.other, f.name)})
		}},
		{"a waiter is not granted the lock in time", conformance.Failed, func(t conformance.T, f fixture) {
			step.Acquire(t, f.l, f.name)
			step.StartAcquire(t, f.other, f.name).Granted(t, soon)
		}},
		{"a wait is cancelled with a cause", conformance.Passed, func(t conformance.T, f fixture) {
			step.Acquire(t, f.l, f.name)
			a := step.StartAcquire(t, f.other, f.name)
			a.Cancel(broken)
			a.Refused(t, soon, broken, context.Canceled)
		}},
		{"a wait ends with its context", conformance.Passed, func(t conformance.T, f fixture) {
			step.Acquire(t, f.l, f.name)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			step.StartAcquireContext(t, ctx, f.other, f.name).Refused(t, 2*soon, context.DeadlineExceeded)
		}},
		{"a wait ends with another error", conformance.Failed, func(t conformance.T, f fixture) {
			step.Acquire(t, f.l, f.name)
			a := step.StartAcquire(t, f.other, f.name)
			a.Cancel(nil)
			a.Refused(t, soon, broken)
		}},
		{"a lease is no refusal", conformance.Failed, func(t conformance.T, f fixture) {
			step.StartAcquire(t, f.l, f.name).Refused(t, soon)
		}},
		{"a race without errors", conformance.Passed, func(t conformance.T, f fixture) {
			step.Contend(t, 4, 5, func(ctx context.Context, i int) error {
				return locker.Do(ctx, []locker.Locker{f.l, f.other}[i%2], f.name, func(context.Context, locker.Lease) error { return nil })
			})
		}},
		{"a race with an error", conformance.Failed, func(t conformance.T, _ fixture) {
			step.Race(t, func() error { return nil }, func() error { return broken })
		}},
		{"a race with a panic", conformance.Failed, func(t conformance.T, _ fixture) {
			step.Race(t, func() error { panic(broken) })
		}},
		{"what is closed", conformance.Passed, func(t conformance.T, _ fixture) {
			done, open := make(chan struct{}), make(chan struct{})
			close(done)
			if !step.IsClosed(done) || !step.WaitClosed(done, 0) || step.IsClosed(open) || step.WaitClosed(open, soon) {
				t.Errorf("an open channel looks closed, or a closed one open")
			}
		}},
		{"what never happens", conformance.Failed, func(t conformance.T, _ fixture) {
			step.Eventually(t, soon, func() error { return broken })
		}},
		{"a call that doesn't return", conformance.Failed, func(t conformance.T, _ fixture) {
			_ = step.MustReturn(t, soon, "the call", func() error {
				time.Sleep(2 * soon)
				return nil
			})
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := membackend.NewServer()
				h := conformance.Harness{TTL: time.Second, Open: func(conformance.T) locker.Locker {
					return membackend.New(membackend.WithServer(server))
				}}
				c := conformance.Case{ID: "X1", Run: func(t conformance.T, h *conformance.Harness) {
					test.steps(t, fixture{server, h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)})
				}}
				err := conformance.Evaluate(t.Context(), h, []conformance.Case{c}, func(r conformance.Result) {
					if r.Verdict != test.want {
						t.Errorf("the case is %v, want %v:\n%s", r.Verdict, test.want, r.Log)
					}
				})
				if err != nil {
					t.Error(err)
				}
				time.Sleep(soon) // for a call that didn't return
			})
		})
	}
}

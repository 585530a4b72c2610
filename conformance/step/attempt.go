package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// Attempt is an Acquire that goes on beside the case.
type Attempt struct {
	Cancel context.CancelCauseFunc
	done   chan struct{} // closed when Acquire has returned

	Lease locker.Lease
	Err   error
}

// StartAcquire calls Acquire beside the case. It is cancelled when the case ends, and a lease that it got is released.
func StartAcquire(t T, l locker.Locker, name string, opts ...locker.Option) *Attempt {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	return StartAcquireContext(t, ctx, cancel, l, name, opts...)
}

func StartAcquireContext(t T, ctx context.Context, cancel context.CancelCauseFunc, l locker.Locker, name string, opts ...locker.Option) *Attempt {
	t.Helper()
	a := &Attempt{Cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.Lease, a.Err = l.Acquire(ctx, name, opts...)
	}()
	t.Cleanup(func() {
		cancel(nil)
		if !a.Returned(Limit) {
			t.Errorf("Acquire has not returned %v after its context's end", Limit)
		} else if a.Lease != nil {
			_, _ = within(Limit, func() error { return a.Lease.Release(context.Background()) })
		}
	})
	return a
}

// Returned waits for the outcome, for up to d.
func (a *Attempt) Returned(d time.Duration) bool { return WaitClosed(a.done, d) }

func (a *Attempt) Over() bool { return IsClosed(a.done) }

// WantPending fails when there is an outcome.
func (a *Attempt) WantPending(t T) {
	t.Helper()
	if a.Over() {
		t.Fatalf("Acquire has returned (%s), want it to wait", a.Outcome())
	}
}

func (a *Attempt) Outcome() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	if a.Lease == nil {
		return "no lease and no error"
	}
	return fmt.Sprintf("a lease with token %v", a.Lease.Token())
}

// Granted waits for a lease, for up to d.
func (a *Attempt) Granted(t T, d time.Duration) locker.Lease {
	t.Helper()
	if !a.Returned(d) {
		t.Fatalf("Acquire has not returned after %v, want a lease", d)
	}
	if a.Err != nil || a.Lease == nil {
		t.Fatalf("Acquire = %s, want a lease", a.Outcome())
	}
	return a.Lease
}

// Refused waits for an error, for up to d, that matches all of targets.
func (a *Attempt) Refused(t T, d time.Duration, targets ...error) error {
	t.Helper()
	if !a.Returned(d) {
		t.Fatalf("Acquire has not returned after %v, want an error", d)
	}
	if a.Err == nil || a.Lease != nil {
		t.Fatalf("Acquire = %s, want an error", a.Outcome())
	}
	for _, target := range targets {
		if !errors.Is(a.Err, target) {
			t.Errorf("Acquire = %v, want it to match: %v", a.Err, target)
		}
	}
	return a.Err
}

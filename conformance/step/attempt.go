package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencedlock/locker"
)

// Attempt is a call of Acquire in the background.
type Attempt struct {
	// Cancel cancels the context of Acquire, with a cause that may be nil.
	Cancel context.CancelCauseFunc

	// Lease and Err are what Acquire has returned. They may be read once Returned is true.
	Lease locker.Lease
	Err   error

	done chan struct{} // closed when Acquire has returned
}

// StartAcquire calls Acquire in the background. When the case ends, the call is cancelled, and its
// lease is released.
func StartAcquire(t T, l locker.Locker, name string, opts ...locker.Option) *Attempt {
	t.Helper()
	return StartAcquireContext(t, t.Context(), l, name, opts...)
}

// StartAcquireContext is StartAcquire with a context of the case's own.
func StartAcquireContext(t T, ctx context.Context, l locker.Locker, name string, opts ...locker.Option) *Attempt {
	t.Helper()
	ctx, cancel := context.WithCancelCause(ctx)
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
			_, _ = returns(Limit, func() error { return a.Lease.Release(context.Background()) })
		}
	})
	return a
}

// Returned waits until Acquire has returned, for up to d, and reports whether it has.
func (a *Attempt) Returned(d time.Duration) bool { return WaitClosed(a.done, d) }

// String describes what Acquire has returned.
func (a *Attempt) String() string {
	switch {
	case !a.Returned(0):
		return "not returned"
	case a.Err != nil:
		return a.Err.Error()
	case a.Lease == nil:
		return "no lease and no error"
	}
	return fmt.Sprintf("a lease with token %v", a.Lease.Token())
}

// WantPending fails the case if Acquire has returned.
func (a *Attempt) WantPending(t T) {
	t.Helper()
	if a.Returned(0) {
		t.Fatalf("Acquire has returned (%v), want it to wait", a)
	}
}

// Granted waits for a lease, for up to d.
func (a *Attempt) Granted(t T, d time.Duration) locker.Lease {
	t.Helper()
	if !a.Returned(d) {
		t.Fatalf("Acquire has not returned after %v, want a lease", d)
	}
	if a.Err != nil || a.Lease == nil {
		t.Fatalf("Acquire = %v, want a lease", a)
	}
	return a.Lease
}

// Refused waits for an error that matches all of targets, for up to d.
func (a *Attempt) Refused(t T, d time.Duration, targets ...error) error {
	t.Helper()
	if !a.Returned(d) {
		t.Fatalf("Acquire has not returned after %v, want an error", d)
	}
	if a.Err == nil || a.Lease != nil {
		t.Fatalf("Acquire = %v, want an error", a)
	}
	for _, target := range targets {
		if !errors.Is(a.Err, target) {
			t.Errorf("Acquire = %v, want it to match: %v", a.Err, target)
		}
	}
	return a.Err
}

// FirstReturned waits until Acquire of one of the attempts has returned, with or without a lease,
// for up to d, and returns its index.
func FirstReturned(t T, d time.Duration, attempts []*Attempt) (first int) {
	t.Helper()
	Eventually(t, d, func() error {
		first = slices.IndexFunc(attempts, func(a *Attempt) bool { return a.Returned(0) })
		if first < 0 {
			return fmt.Errorf("none of %d calls of Acquire has returned", len(attempts))
		}
		return nil
	})
	return first
}

// FirstGranted waits until Acquire of one of the attempts has returned, for up to d, and returns
// its index. That attempt must have a lease.
func FirstGranted(t T, d time.Duration, attempts []*Attempt) int {
	t.Helper()
	first := FirstReturned(t, d, attempts)
	attempts[first].Granted(t, 0)
	return first
}

package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// attempt is an Acquire that goes on beside the case.
type attempt struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when Acquire has returned

	lease locker.Lease
	err   error
}

// start calls Acquire beside the case. It is cancelled when the case ends, and a lease that it got is released.
func start(t T, l locker.Locker, name string, opts ...locker.Option) *attempt {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	return startWith(t, ctx, cancel, l, name, opts...)
}

func startWith(t T, ctx context.Context, cancel context.CancelCauseFunc, l locker.Locker, name string, opts ...locker.Option) *attempt {
	t.Helper()
	a := &attempt{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.lease, a.err = l.Acquire(ctx, name, opts...)
	}()
	t.Cleanup(func() {
		cancel(nil)
		if !a.wait(hang) {
			t.Errorf("Acquire has not returned %v after its context's end", hang)
		} else if a.lease != nil {
			_, _ = within(hang, func() error { return a.lease.Release(context.Background()) })
		}
	})
	return a
}

// wait waits for the outcome, for up to d.
func (a *attempt) wait(d time.Duration) bool { return closes(a.done, d) }

func (a *attempt) over() bool { return isClosed(a.done) }

// pending fails when there is an outcome.
func (a *attempt) pending(t T) {
	t.Helper()
	if a.over() {
		t.Fatalf("Acquire has returned (%s), want it to wait", a.outcome())
	}
}

func (a *attempt) outcome() string {
	if a.err != nil {
		return a.err.Error()
	}
	if a.lease == nil {
		return "no lease and no error"
	}
	return fmt.Sprintf("a lease with token %v", a.lease.Token())
}

// granted waits for a lease, for up to d.
func (a *attempt) granted(t T, d time.Duration) locker.Lease {
	t.Helper()
	if !a.wait(d) {
		t.Fatalf("Acquire has not returned after %v, want a lease", d)
	}
	if a.err != nil || a.lease == nil {
		t.Fatalf("Acquire = %s, want a lease", a.outcome())
	}
	return a.lease
}

// refused waits for an error, for up to d, that matches all of targets.
func (a *attempt) refused(t T, d time.Duration, targets ...error) error {
	t.Helper()
	if !a.wait(d) {
		t.Fatalf("Acquire has not returned after %v, want an error", d)
	}
	if a.err == nil || a.lease != nil {
		t.Fatalf("Acquire = %s, want an error", a.outcome())
	}
	for _, target := range targets {
		if !errors.Is(a.err, target) {
			t.Errorf("Acquire = %v, want it to match: %v", a.err, target)
		}
	}
	return a.err
}

// queued waits until n acquisitions wait on the service. Without the hook it lets time pass.
func (h *Harness) queued(t T, name string, n int) {
	t.Helper()
	if h.Waiters == nil {
		pass(t, h.settle(), "no hook tells whether the waiter is queued")
		return
	}
	got := 0
	eventually(t, hang, func() bool {
		got = h.Waiters(t, name)
		return got == n
	}, func() string { return fmt.Sprintf("%d acquisitions wait on the service, want %d", got, n) })
}

// requests counts, where the harness can.
func (h *Harness) requests(t T) int64 {
	if h.Requests == nil {
		return 0
	}
	return h.Requests(t)
}

// requestsAtRest counts once nothing more comes of what was asked before. Where several servers are asked, an operation is done when
// most of them have answered, and the last request may come later.
func (h *Harness) requestsAtRest(t T) int64 {
	t.Helper()
	n := h.requests(t)
	for range 20 {
		before := n
		pass(t, h.settle(), "requests of before may come late")
		if n = h.requests(t); n == before {
			break
		}
	}
	return n
}

// noResidue fails when something stays on the service, where the harness can tell.
func (h *Harness) noResidue(t T) {
	t.Helper()
	if h.Residue == nil {
		return
	}
	left := ""
	eventually(t, h.removal(), func() bool {
		left = h.Residue(t)
		return left == ""
	}, func() string { return "left on the service: " + left })
}

// pause stops the service until the function that it returns is called, or the case ends.
func (h *Harness) pause(t T) (resume func()) { return between(t, h.Pause, h.Resume) }

// down makes the service fail until the function that it returns is called, or the case ends.
func (h *Harness) down(t T) (up func()) { return between(t, h.Down, h.Up) }

func between(t T, begin, end func(T)) func() {
	begin(t)
	over := false
	stop := func() {
		if !over {
			over = true
			end(t)
		}
	}
	t.Cleanup(stop)
	return stop
}

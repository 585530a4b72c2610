//go:build unix

package integration

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// The steps that backends' own cases are made of. Each is bounded in time.

const (
	shortTTL = 800 * time.Millisecond // where a case is about time; half of it is too short for a machine that is busy with other tests
	soon     = 5 * time.Second        // how late a busy machine may be with what should happen at once
	hang     = 60 * time.Second       // when something is given up
	far      = time.Minute            // a TTL that no case waits for: what happens before it has not waited for it
)

// lockName is a name that no other case uses.
func lockName(t conformance.T) string {
	t.Helper()
	name := strings.ToLower(rand.Text())
	t.Logf("lock %s", name)
	return name
}

// keep closes a Locker when the case ends.
func keep(t conformance.T, l locker.Locker) locker.Locker {
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Logf("Close at the end = %v", err)
		}
	})
	return l
}

// acquire gets a lock that is free, or is going to be soon.
func acquire(t conformance.T, l locker.Locker, name string, opts ...locker.Option) locker.Lease {
	t.Helper()
	return wait(t, l, name, opts...).granted(t, hang)
}

// refused tries to get a lock within d and returns the error that it must end with, which is not that somebody has it.
func refused(t conformance.T, d time.Duration, l locker.Locker, name string, opts ...locker.Option) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	lease, err := locker.TryAcquire(ctx, l, name, opts...)
	if err == nil {
		_ = lease.Release(ctx)
		t.Fatalf("TryAcquire = a lease, want an error")
	}
	if errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire = %v, want an error that is not ErrHeld: the service failed", err)
	}
	t.Logf("TryAcquire = %v", err)
	return err
}

// free gets the lock within d, and gives it back.
func free(t conformance.T, d time.Duration, l locker.Locker, name string) locker.Token {
	t.Helper()
	var lease locker.Lease
	eventually(t, d, func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		lease, err = locker.TryAcquire(ctx, l, name)
		return err
	})
	release(t, lease)
	return lease.Token()
}

func release(t conformance.T, lease locker.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatalf("Release(%q) = %v, want nil", lease.Name(), err)
	}
}

// held fails unless the lease stands, in its own eyes and in those of another Locker.
func held(t conformance.T, lease locker.Lease, other locker.Locker) {
	t.Helper()
	if err := lease.Err(); err != nil {
		t.Fatalf("Err = %v, want nil: the lease is held", err)
	}
	if _, err := locker.TryAcquire(t.Context(), other, lease.Name()); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire of a held lock = %v, want ErrHeld", err)
	}
}

// lost waits for the loss of a lease, for up to d.
func lost(t conformance.T, d time.Duration, lease locker.Lease) {
	t.Helper()
	select {
	case <-lease.Done():
	case <-time.After(d):
	}
	if err := lease.Err(); !errors.Is(err, locker.ErrLost) {
		t.Fatalf("after %v, Err = %v, want ErrLost", d, err)
	} else {
		t.Logf("lost: %v", err)
	}
}

// waiting is an Acquire that goes on beside the case.
type waiting struct {
	cancel context.CancelFunc
	done   chan struct{}
	lease  locker.Lease
	err    error
}

func wait(t conformance.T, l locker.Locker, name string, opts ...locker.Option) *waiting {
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiting{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.err = l.Acquire(ctx, name, opts...)
	}()
	t.Cleanup(func() {
		cancel()
		<-w.done
		if w.lease != nil {
			_ = w.lease.Release(context.Background())
		}
	})
	return w
}

// granted waits for the lease, for up to d.
func (w *waiting) granted(t conformance.T, d time.Duration) locker.Lease {
	t.Helper()
	if !w.returned(d) {
		t.Fatalf("Acquire has not returned after %v, want a lease", d)
	}
	if w.err != nil {
		t.Fatalf("Acquire = %v, want a lease", w.err)
	}
	return w.lease
}

// pending fails when Acquire has returned.
func (w *waiting) pending(t conformance.T) {
	t.Helper()
	if w.returned(0) {
		t.Fatalf("Acquire has returned (%v), want it to wait", w.err)
	}
}

// returned waits for Acquire to return, for up to d.
func (w *waiting) returned(d time.Duration) bool {
	select {
	case <-w.done:
		return true
	default:
	}
	select {
	case <-w.done:
		return true
	case <-time.After(d):
		return false
	}
}

// first is the index of a waiter that has returned, within d.
func first(t conformance.T, all []*waiting, d time.Duration) (i int) {
	t.Helper()
	eventually(t, d, func() error {
		i = slices.IndexFunc(all, func(w *waiting) bool { return w.returned(0) })
		if i < 0 {
			return fmt.Errorf("none of %d waiters has got the lock", len(all))
		}
		return nil
	})
	return i
}

// pass lets time go by where time is what a case is about.
func pass(t conformance.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatalf("the run was ended")
	}
}

// eventually asks again and again, for up to d, until there is no error.
func eventually(t conformance.T, d time.Duration, check func() error) {
	t.Helper()
	end := time.Now().Add(d)
	for err := check(); err != nil; err = check() {
		if time.Now().After(end) {
			t.Fatalf("after %v: %v", d, err)
		}
		pass(t, 5*time.Millisecond)
	}
}

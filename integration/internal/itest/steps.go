//go:build unix

package itest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// The steps that backends' own cases are made of. Each is bounded in time.

const (
	ShortTTL = 800 * time.Millisecond // where a case is about time; half of it is too short for a machine that is busy with other tests
	Soon     = 5 * time.Second        // how late a busy machine may be with what should happen at once
	Hang     = 60 * time.Second       // when something is given up
	Far      = time.Minute            // a TTL that no case waits for: what happens before it has not waited for it
)

// LockName is a name that no other case uses.
func LockName(t conformance.T) string {
	t.Helper()
	name := strings.ToLower(rand.Text())
	t.Logf("lock %s", name)
	return name
}

// Keep closes a Locker when the case ends.
func Keep(t conformance.T, l locker.Locker) locker.Locker {
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Logf("Close at the end = %v", err)
		}
	})
	return l
}

// Acquire gets a lock that is free, or is going to be soon.
func Acquire(t conformance.T, l locker.Locker, name string, opts ...locker.Option) locker.Lease {
	t.Helper()
	return Wait(t, l, name, opts...).Granted(t, Hang)
}

// Refused tries to get a lock within d and returns the error that it must end with, which is not that somebody has it.
func Refused(t conformance.T, d time.Duration, l locker.Locker, name string, opts ...locker.Option) error {
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

// Free gets the lock within d, and gives it back.
func Free(t conformance.T, d time.Duration, l locker.Locker, name string) locker.Token {
	t.Helper()
	var lease locker.Lease
	Eventually(t, d, func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), Soon)
		defer cancel()
		lease, err = locker.TryAcquire(ctx, l, name)
		return err
	})
	Release(t, lease)
	return lease.Token()
}

func Release(t conformance.T, lease locker.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatalf("Release(%q) = %v, want nil", lease.Name(), err)
	}
}

// Held fails unless the lease stands, in its own eyes and in those of another Locker.
func Held(t conformance.T, lease locker.Lease, other locker.Locker) {
	t.Helper()
	if err := lease.Err(); err != nil {
		t.Fatalf("Err = %v, want nil: the lease is held", err)
	}
	if _, err := locker.TryAcquire(t.Context(), other, lease.Name()); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire of a held lock = %v, want ErrHeld", err)
	}
}

// Lost waits for the loss of a lease, for up to d.
func Lost(t conformance.T, d time.Duration, lease locker.Lease) {
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

// Waiting is an Acquire that goes on beside the case.
type Waiting struct {
	Cancel context.CancelFunc
	done   chan struct{}
	Lease  locker.Lease
	Err    error
}

func Wait(t conformance.T, l locker.Locker, name string, opts ...locker.Option) *Waiting {
	ctx, cancel := context.WithCancel(t.Context())
	w := &Waiting{Cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.Lease, w.Err = l.Acquire(ctx, name, opts...)
	}()
	t.Cleanup(func() {
		cancel()
		<-w.done
		if w.Lease != nil {
			_ = w.Lease.Release(context.Background())
		}
	})
	return w
}

// Granted waits for the lease, for up to d.
func (w *Waiting) Granted(t conformance.T, d time.Duration) locker.Lease {
	t.Helper()
	if !w.Returned(d) {
		t.Fatalf("Acquire has not returned after %v, want a lease", d)
	}
	if w.Err != nil {
		t.Fatalf("Acquire = %v, want a lease", w.Err)
	}
	return w.Lease
}

// Pending fails when Acquire has returned.
func (w *Waiting) Pending(t conformance.T) {
	t.Helper()
	if w.Returned(0) {
		t.Fatalf("Acquire has returned (%v), want it to wait", w.Err)
	}
}

// Returned waits for Acquire to return, for up to d.
func (w *Waiting) Returned(d time.Duration) bool {
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

// First is the index of a waiter that has returned, within d.
func First(t conformance.T, all []*Waiting, d time.Duration) (i int) {
	t.Helper()
	Eventually(t, d, func() error {
		i = slices.IndexFunc(all, func(w *Waiting) bool { return w.Returned(0) })
		if i < 0 {
			return fmt.Errorf("none of %d waiters has got the lock", len(all))
		}
		return nil
	})
	return i
}

// Pass lets time go by where time is what a case is about.
func Pass(t conformance.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatalf("the run was ended")
	}
}

// Eventually asks again and again, for up to d, until there is no error.
func Eventually(t conformance.T, d time.Duration, check func() error) {
	t.Helper()
	end := time.Now().Add(d)
	for err := check(); err != nil; err = check() {
		if time.Now().After(end) {
			t.Fatalf("after %v: %v", d, err)
		}
		Pass(t, 5*time.Millisecond)
	}
}

// The ways in which a client may reach Redis, beside a plain connection by URL.

// HandsOver takes a lock, renews it and hands it to one that waits, which takes every kind of connection that there is.
func HandsOver(t *testing.T, l, other locker.Locker, name string) {
	t.Helper()
	lease := Acquire(t, l, name)
	next := Wait(t, other, name)
	Free(t, 0, l, name+"-")
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	next.Pending(t)
	Release(t, lease)
	Release(t, next.Granted(t, Soon))
}

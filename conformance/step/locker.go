package step

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

// LockName returns the name of a lock that no other case and no other run uses. No character of the
// name is special anywhere.
func LockName(t T) string {
	t.Helper()
	name := t.Name()
	name = name[strings.LastIndexByte(name, '/')+1:]
	name, _, _ = strings.Cut(strings.ToLower(name), "-")
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	name += "-" + hex.EncodeToString(b[:])
	t.Logf("lock %s", name)
	return name
}

// CloseAtEnd closes l when the case ends. It returns l.
func CloseAtEnd(t T, l locker.Locker) locker.Locker {
	t.Helper()
	t.Cleanup(func() {
		if err, ok := returns(Limit, l.Close); !ok {
			t.Errorf("Close has not returned after %v", Limit)
		} else if err != nil {
			// Removals that a fault of this case has made impossible.
			t.Logf("Close at the end = %v", err)
		}
	})
	return l
}

// Close closes l now, and fails the case unless Close returns nil. Nothing may prevent l's
// removals.
func Close(t T, l locker.Locker) {
	t.Helper()
	if err := MustReturn(t, Limit, "Close", l.Close); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
}

// AcquireContext calls Acquire once, and fails the case unless the answer is either a lease or an
// error.
func AcquireContext(t T, ctx context.Context, l locker.Locker, name string, opts ...locker.Option) (locker.Lease, error) {
	t.Helper()
	var lease locker.Lease
	err := MustReturn(t, Limit+Limit/2, "Acquire", func() (err error) {
		lease, err = l.Acquire(ctx, name, opts...)
		return err
	})
	if (lease == nil) == (err == nil) {
		t.Fatalf("Acquire = %v, %v: want either a lease or an error", lease, err)
	}
	return lease, err
}

// Try calls TryAcquire once.
func Try(t T, l locker.Locker, name string, opts ...locker.Option) (locker.Lease, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit/2)
	defer cancel()
	return AcquireContext(t, ctx, l, name, append(opts, locker.NoWait())...)
}

// Acquire gets a lock that is free, or will be free within [Limit].
func Acquire(t T, l locker.Locker, name string, opts ...locker.Option) locker.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	defer cancel()
	lease, err := AcquireContext(t, ctx, l, name, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q) = %v, want a lease", name, err)
	}
	return lease
}

// AcquireWithin gets the lock within d, by calling TryAcquire until it returns a lease. So it
// doesn't depend on places in a queue, nor on the long pauses of a waiter that polls. A call that
// takes longer than 5 s is repeated.
func AcquireWithin(t T, d time.Duration, l locker.Locker, name string) (lease locker.Lease) {
	t.Helper()
	Eventually(t, d, func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if lease, err = AcquireContext(t, ctx, l, name, locker.NoWait()); err != nil {
			return fmt.Errorf("the lock is not free; the last TryAcquire = %w", err)
		}
		return nil
	})
	return lease
}

// FreeWithin fails the case unless l gets the lock within d. It releases the lock and returns the
// token.
func FreeWithin(t T, d time.Duration, l locker.Locker, name string) locker.Token {
	t.Helper()
	lease := AcquireWithin(t, d, l, name)
	Release(t, lease)
	return lease.Token()
}

// WantFree fails the case unless l gets the lock at once. It releases the lock and returns the
// token.
func WantFree(t T, l locker.Locker, name string) locker.Token {
	t.Helper()
	lease, err := Try(t, l, name)
	if err != nil {
		t.Fatalf("TryAcquire(%q) = %v, want a lease: nobody has it", name, err)
	}
	Release(t, lease)
	return lease.Token()
}

// WantHeld fails the case unless l is refused the lock because somebody holds it.
func WantHeld(t T, l locker.Locker, name string) {
	t.Helper()
	lease, err := Try(t, l, name)
	if err == nil {
		t.Fatalf("TryAcquire(%q) = token %v, want ErrHeld: somebody has it", name, lease.Token())
	}
	if !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire(%q) = %v, want ErrHeld: somebody has it", name, err)
	}
}

// WantFailure calls TryAcquire with a context of length d, and fails the case unless the service
// fails: the error, which it returns, must not be that somebody holds the lock.
func WantFailure(t T, d time.Duration, l locker.Locker, name string, opts ...locker.Option) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	lease, err := AcquireContext(t, ctx, l, name, append(opts, locker.NoWait())...)
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

package step

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
)

// WantLive fails the case unless the lease is held, both for its holder and for another Locker.
func WantLive(t T, lease locker.Lease, other locker.Locker) {
	t.Helper()
	if err := lease.Err(); err != nil {
		t.Fatalf("Err = %v, want nil: the lease is held", err)
	}
	if IsClosed(lease.Done()) {
		t.Fatalf("Done is closed, and the lease is held")
	}
	WantHeld(t, other, lease.Name())
}

// Release releases a lease, and fails the case unless Release returns nil.
func Release(t T, lease locker.Lease) {
	t.Helper()
	err := MustReturn(t, Limit, "Release", func() error { return lease.Release(t.Context()) })
	if err != nil {
		t.Fatalf("Release(%q) = %v, want nil", lease.Name(), err)
	}
}

// Renew asks for a renewal once.
func Renew(t T, lease locker.Lease) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit/2)
	defer cancel()
	return MustReturn(t, Limit, "Renew", func() error { return lease.Renew(ctx) })
}

// EndedWithin waits for the end of a lease, for up to d, and returns its Err.
func EndedWithin(t T, d time.Duration, lease locker.Lease) error {
	t.Helper()
	if !WaitClosed(lease.Done(), d) {
		t.Fatalf("Done is not closed after %v; Err = %v, the deadline is %v away",
			d, lease.Err(), time.Until(lease.Deadline()))
	}
	err := lease.Err()
	if err == nil {
		t.Fatalf("Done is closed, and Err is nil")
	}
	return err
}

// LostWithin waits for the loss of a lease, for up to d. It fails the case when the lease ends
// otherwise.
func LostWithin(t T, d time.Duration, lease locker.Lease) {
	t.Helper()
	err := EndedWithin(t, d, lease)
	if !errors.Is(err, locker.ErrLost) || errors.Is(err, locker.ErrReleased) {
		t.Fatalf("Err = %v, want ErrLost", err)
	}
	t.Logf("lost: %v", err)
}

// WantRising fails the case unless the token of a later lease is larger than the token of an
// earlier one.
func WantRising(t T, earlier, later locker.Token) {
	t.Helper()
	if later <= earlier || later <= 0 {
		t.Fatalf("token %v after %v: a later lease must have a larger one", later, earlier)
	}
}

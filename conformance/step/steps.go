package step

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

// The steps that cases are made of. Each is bounded in time, so that a broken locker fails a case instead of hanging
// it.

// Limit is when a call that should have returned long ago is given up. It is no measure of anything.
const Limit = 60 * time.Second

func CloseAtEnd(t T, l locker.Locker) locker.Locker {
	t.Helper()
	t.Cleanup(func() {
		if err, ok := within(Limit, l.Close); !ok {
			t.Errorf("Close has not returned after %v", Limit)
		} else if err != nil {
			t.Logf("Close at the end = %v", err) // removals that a fault of this case has made impossible
		}
	})
	return l
}

// Close closes a Locker that has nothing in its way.
func Close(t T, l locker.Locker) {
	t.Helper()
	if err := MustReturn(t, Limit, "Close", l.Close); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
}

// within waits for f, for up to d. What f leaves behind if it doesn't return is nobody's.
func within(d time.Duration, f func() error) (err error, returned bool) {
	result := make(chan error, 1)
	go func() { result <- f() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-result:
		return err, true
	case <-timer.C:
		return nil, false
	}
}

// WaitClosed waits for c, for up to d.
func WaitClosed(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return IsClosed(c)
	}
}

func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// MustReturn is the error of f, which must return within d.
func MustReturn(t T, d time.Duration, what string, f func() error) error {
	t.Helper()
	err, returned := within(d, f)
	if !returned {
		t.Fatalf("%s has not returned after %v", what, d)
	}
	return err
}

// AcquireContext calls Acquire once and makes sure that it answers with a lease or an error, not with both or neither.
func AcquireContext(t T, ctx context.Context, l locker.Locker, name string, opts ...locker.Option) (locker.Lease, error) {
	t.Helper()
	var lease locker.Lease
	err := MustReturn(t, Limit, "Acquire", func() (err error) {
		lease, err = l.Acquire(ctx, name, opts...)
		return err
	})
	if (lease == nil) == (err == nil) {
		t.Fatalf("Acquire = %v, %v: want either a lease or an error", lease, err)
	}
	return lease, err
}

// Try is TryAcquire.
func Try(t T, l locker.Locker, name string, opts ...locker.Option) (locker.Lease, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit/2)
	defer cancel()
	return AcquireContext(t, ctx, l, name, append(opts, locker.NoWait())...)
}

// Acquire gets a lock that is free, or is going to be soon.
func Acquire(t T, l locker.Locker, name string, opts ...locker.Option) locker.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit/2)
	defer cancel()
	lease, err := AcquireContext(t, ctx, l, name, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q) = %v, want a lease", name, err)
	}
	return lease
}

// WantHeld fails unless the lock is refused to l because it is held.
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

// WantFree fails unless l gets the lock at once. It gives it back.
func WantFree(t T, l locker.Locker, name string) locker.Token {
	t.Helper()
	lease, err := Try(t, l, name)
	if err != nil {
		t.Fatalf("TryAcquire(%q) = %v, want a lease: nobody has it", name, err)
	}
	Release(t, lease)
	return lease.Token()
}

// AcquireWithin gets the lock within d, by asking again and again: nobody's place in a queue is in the way, and no long pause
// of a waiter that polls.
func AcquireWithin(t T, d time.Duration, l locker.Locker, name string) (lease locker.Lease) {
	t.Helper()
	var err error
	Eventually(t, d, func() bool {
		lease, err = Try(t, l, name)
		return err == nil
	}, func() string { return "the lock is not free; the last TryAcquire = " + err.Error() })
	return lease
}

// FreeWithin fails unless l gets the lock within d. It gives it back.
func FreeWithin(t T, d time.Duration, l locker.Locker, name string) {
	t.Helper()
	Release(t, AcquireWithin(t, d, l, name))
}

// WantLive fails unless the lease stands, in the eyes of its holder and of another Locker.
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
		t.Fatalf("Done is not closed after %v; Err = %v, the deadline is %v away", d, lease.Err(), time.Until(lease.Deadline()))
	}
	err := lease.Err()
	if err == nil {
		t.Fatalf("Done is closed, and Err is nil")
	}
	return err
}

// LostWithin waits for the loss of a lease, for up to d.
func LostWithin(t T, d time.Duration, lease locker.Lease) error {
	t.Helper()
	err := EndedWithin(t, d, lease)
	if !errors.Is(err, locker.ErrLost) || errors.Is(err, locker.ErrReleased) {
		t.Fatalf("Err = %v, want ErrLost", err)
	}
	return err
}

// WantRising fails unless a token is larger than one of before.
func WantRising(t T, before, now locker.Token) {
	t.Helper()
	if now <= before || now <= 0 {
		t.Fatalf("token %v after %v: a later lease must have a larger one", now, before)
	}
}

// Pass lets time go by where time is what a case is about. It synchronises nothing.
func Pass(t T, d time.Duration, why string) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatalf("the run was ended while %v passed: %s", d, why)
	}
}

// Eventually looks again and again, for up to d, until cond is true.
func Eventually(t T, d time.Duration, cond func() bool, otherwise func() string) {
	t.Helper()
	end := time.Now().Add(d)
	for pause := time.Millisecond; !cond(); pause = min(2*pause, 5*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v: %s", d, otherwise())
		}
		Pass(t, pause, "before the next look")
	}
}

// LockName is a lock name that no other case and no other run uses. It has no character that could be special anywhere.
func LockName(t T) string {
	name := t.Name()
	name = name[strings.LastIndexByte(name, '/')+1:]
	name, _, _ = strings.Cut(strings.ToLower(name), "-")
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	name += "-" + hex.EncodeToString(b[:])
	t.Logf("lock %s", name)
	return name
}

package gooselocker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	gooselocker "github.com/fencedlock/locker/adapters/goose"
	"github.com/fencedlock/locker/membackend"
)

const lockName = "migrations/app"

// newLocker opens a Locker on server, which the test closes.
func newLocker(t *testing.T, server *membackend.Server) locker.Locker {
	l := membackend.New(membackend.WithServer(server))
	t.Cleanup(func() { l.Close() })
	return l
}

// One caller has the lock, of several Lockers as of one. Unlock takes the contexts that goose uses.
func TestLockIsExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		first, second := gooselocker.New(newLocker(t, server), lockName), gooselocker.New(newLocker(t, server), lockName)
		if err := first.Lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for what, l := range map[string]*gooselocker.Locker{"the same": first, "another": second} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := l.Lock(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock of %s Locker = %v, want a timeout", what, err)
			}
		}
		if err := first.Unlock(context.WithoutCancel(t.Context()), nil); err != nil {
			t.Errorf("Unlock = %v", err)
		}
		if err := second.Lock(t.Context(), nil); err != nil {
			t.Errorf("Lock of the next = %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := second.Unlock(ended, nil); err != nil {
			t.Errorf("Unlock with an ended context = %v", err)
		}
	})
}

// The caller that has lost its lease learns it from Unlock. The next caller in the same program gets a
// lease of its own only then.
func TestUnlockTellsOfTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		l := gooselocker.New(newLocker(t, server), lockName)
		if err := l.Lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		server.Expire(lockName)
		next := make(chan error, 1)
		go func() { next <- l.Lock(t.Context(), nil) }()
		synctest.Wait()
		select {
		case err := <-next:
			t.Fatalf("the next Lock = %v before Unlock", err)
		default:
		}
		if err := l.Unlock(t.Context(), nil); !errors.Is(err, locker.ErrLost) {
			t.Errorf("Unlock after a loss = %v, want %v", err, locker.ErrLost)
		}
		if err := <-next; err != nil {
			t.Errorf("the next Lock = %v", err)
		}
		if err := l.Unlock(t.Context(), nil); err != nil {
			t.Errorf("the next Unlock = %v", err)
		}
	})
}

// stub is a Locker that grants each Acquire at once and orders no goroutines, so the race detector sees all that a
// caller has no right to.
type stub struct {
	locker.Locker
	leases chan *stubLease // all that it will grant
}

type stubLease struct {
	locker.Lease
	releases atomic.Int32
}

func (s stub) Acquire(context.Context, string, ...locker.Option) (locker.Lease, error) {
	return <-s.leases, nil
}

func (l *stubLease) Release(context.Context) error {
	l.releases.Add(1)
	return nil
}

// defective is a Locker that panics, and whose leases do.
type defective struct {
	locker.Locker
	inRelease bool
}

func (d defective) Acquire(context.Context, string, ...locker.Option) (locker.Lease, error) {
	if d.inRelease {
		return defectiveLease{}, nil
	}
	panic("a defect of the locker")
}

type defectiveLease struct{ locker.Lease }

func (defectiveLease) Release(context.Context) error { panic("a defect of the locker") }

// A panic that the caller recovers from keeps nobody out.
func TestNextAfterAPanic(t *testing.T) {
	for _, inRelease := range []bool{false, true} {
		l := gooselocker.New(defective{inRelease: inRelease}, lockName)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			func() {
				defer func() { _ = recover() }()
				_ = l.Lock(ctx, nil)
				_ = l.Unlock(ctx, nil)
			}()
			if ctx.Err() != nil {
				t.Errorf("after a panic (in Release: %v), Lock waits for the caller that had it", inRelease)
			}
			cancel()
		}
	}
}

// Unlock releases the lease of its own Lock, also if another caller in the same program waits for its turn.
func TestUnlockReleasesItsOwnLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := new(stubLease), new(stubLease)
		s := stub{leases: make(chan *stubLease, 2)}
		s.leases <- first
		s.leases <- second
		l := gooselocker.New(s, lockName)
		if err := l.Lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		next := make(chan error, 1)
		go func() { next <- l.Lock(t.Context(), nil) }()
		synctest.Wait() // it waits for the first caller
		if err := l.Unlock(t.Context(), nil); err != nil {
			t.Errorf("Unlock = %v", err)
		}
		if err := <-next; err != nil {
			t.Errorf("the next Lock = %v", err)
		}
		if a, b := first.releases.Load(), second.releases.Load(); a != 1 || b != 0 {
			t.Errorf("after the first Unlock its lease was released %d times, and the other one %d times, want 1 and 0", a, b)
		}
		if err := l.Unlock(t.Context(), nil); err != nil {
			t.Errorf("the next Unlock = %v", err)
		}
		if b := second.releases.Load(); b != 1 {
			t.Errorf("after the next Unlock its lease was released %d times, want once", b)
		}
	})
}

// An Unlock without a Lock does nothing to a Lock that still waits for the service.
func TestUnlockDuringALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		other, l := gooselocker.New(newLocker(t, server), lockName), gooselocker.New(newLocker(t, server), lockName)
		if err := other.Lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		locked := make(chan error, 1)
		go func() { locked <- l.Lock(ctx, nil) }()
		synctest.Wait() // it waits for the other process
		if err := l.Unlock(t.Context(), nil); !errors.Is(err, gooselocker.ErrNotLocked) {
			t.Errorf("Unlock without a lock = %v, want %v", err, gooselocker.ErrNotLocked)
		}
		cancel()
		if err := <-locked; !errors.Is(err, context.Canceled) {
			t.Errorf("Lock = %v, want %v", err, context.Canceled)
		}
		if err := other.Unlock(t.Context(), nil); err != nil {
			t.Errorf("Unlock of the other one = %v", err)
		}
		if err := errors.Join(l.Lock(t.Context(), nil), l.Unlock(t.Context(), nil)); err != nil {
			t.Errorf("Lock and Unlock after that = %v", err)
		}
	})
}

func TestErrors(t *testing.T) {
	l := newLocker(t, membackend.NewServer())
	invalid := gooselocker.New(l, lockName, locker.WithTTL(-1))
	for range 2 { // a failed Lock leaves nothing behind
		if err := invalid.Lock(t.Context(), nil); !errors.Is(err, locker.ErrOption) {
			t.Errorf("Lock with a negative TTL = %v, want %v", err, locker.ErrOption)
		}
	}
	if err := invalid.Unlock(t.Context(), nil); !errors.Is(err, gooselocker.ErrNotLocked) {
		t.Errorf("Unlock without a lock = %v, want %v", err, gooselocker.ErrNotLocked)
	}
}

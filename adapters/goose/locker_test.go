package gooselocker_test

import (
	"context"
	"errors"
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

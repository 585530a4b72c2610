package locker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// permitsOf takes some of n permits. The context comes from all of them, until free is called.
func permitsOf(ctx context.Context, t *testing.T, l locker.Locker, some, n int) (_ context.Context, free func()) {
	t.Helper()
	var leases []locker.Lease
	var ends []context.CancelFunc
	for range some {
		lease := tryPermit(t, l, n)
		inner, end := locker.WithLease(ctx, lease)
		ctx, leases, ends = inner, append(leases, lease), append(ends, end)
	}
	return ctx, func() {
		for _, end := range ends {
			end()
		}
		release(t, leases...)
	}
}

// The caller itself has all slots but one. What is said of the others doesn't depend on their order.
func TestTryPermitThatOthersHaveToo(t *testing.T) {
	for _, n := range []int{2, 12} {
		bubble(t, func(t *testing.T, s *membackend.Server) {
			l, other := openMem(t, s), openMem(t, s)
			theirs := tryPermit(t, other, n)
			ctx, free := permitsOf(t.Context(), t, l, n-1, n)
			defer free()
			for range 50 {
				_, err := locker.TryAcquirePermit(ctx, l, "job", n)
				if !errors.Is(err, locker.ErrHeld) || errors.Is(err, locker.ErrHeldByCaller) {
					t.Fatalf("n = %d: TryAcquirePermit = %v, want ErrHeld, and not ErrHeldByCaller", n, err)
				}
			}
			release(t, theirs)
			ctx, freeLast := permitsOf(ctx, t, l, 1, n)
			defer freeLast()
			_, err := locker.TryAcquirePermit(ctx, l, "job", n)
			wantErr(t, "all are the caller's own", err, "job", locker.ErrHeldByCaller)
		})
	}
}

// However many slots the caller itself has, a call that could only wait for them doesn't wait.
func TestPermitWhoseCallerHasThemAll(t *testing.T) {
	for _, n := range []int{queuesOfTheFirst, 36, 37, 70} {
		bubble(t, func(t *testing.T, s *membackend.Server) {
			l, other := openMem(t, s), openMem(t, s)
			ctx, free := permitsOf(t.Context(), t, l, n-1, n)
			defer free()
			theirs := tryPermit(t, other, n)
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err := locker.AcquirePermit(short, l, "job", n)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, locker.ErrHeldByCaller) {
				t.Errorf("n = %d, and another one has one: AcquirePermit = %v, want it to wait", n, err)
			}
			synctest.Wait() // its places are removed
			release(t, theirs)
			ctx, freeLast := permitsOf(ctx, t, l, 1, n)
			defer freeLast()
			ctx, cancel = context.WithTimeout(ctx, time.Minute)
			defer cancel()
			began := time.Now()
			_, err = locker.AcquirePermit(ctx, l, "job", n)
			wantErr(t, "all are the caller's own", err, "job", locker.ErrHeldByCaller)
			if took := time.Since(began); took > time.Second {
				t.Errorf("n = %d: the answer took %v", n, took)
			}
		})
	}
}

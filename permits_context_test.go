package locker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// ignoresContext is a Locker that says of each wait that the caller has the slot itself, refuses
// each slot while ctx lives, and grants slots when ctx is over.
type ignoresContext struct {
	locker.Locker
	over atomic.Int32 // grants with a context that is over
}

func (d *ignoresContext) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	req, err := locker.Resolve(name, opts...)
	switch {
	case err != nil || req.Slot < 1:
	case !req.NoWait:
		return nil, &locker.Error{Op: "acquire", Name: name, Err: locker.ErrHeldByCaller}
	case ctx.Err() == nil:
		return nil, &locker.Error{Op: "acquire", Name: name, Err: locker.ErrHeld}
	default:
		d.over.Add(1)
		return d.Locker.Acquire(context.WithoutCancel(ctx), name, opts...)
	}
	return d.Locker.Acquire(ctx, name, opts...)
}

// What a Locker grants though the context is over must not be kept, and the call must return.
func TestPermitOfALockerThatIgnoresItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		d := &ignoresContext{Locker: openMem(t, s)}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		lease, err := locker.AcquirePermit(ctx, d, "job", 2*queuesOfTheFirst)
		if lease != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("AcquirePermit = %v, %v, want DeadlineExceeded", lease, err)
		}
		wantErr(t, "AcquirePermit", err, "job", locker.ErrHeld, context.DeadlineExceeded)
		if n := d.over.Load(); n > 1 {
			t.Errorf("%d slots were granted when the context was over, want at most one", n)
		}
	})
}

// A caller that has all slots must not wait in the line: the first there may wait for the caller.
func TestPermitsThatAreTheCallersOwn(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, other := openMem(t, s), openMem(t, s)
		for what, waiting := range map[string]locker.Locker{"this Locker": l, "another Locker": other} {
			for n := 1; n <= 2*queuesOfTheFirst; n++ {
				ctx, held := withPermits(t, l, n, n)
				first := startPermit(t.Context(), waiting, n)
				synctest.Wait()
				limited, cancel := context.WithTimeout(ctx, time.Minute)
				before := s.Requests()
				lease, err := locker.AcquirePermit(limited, l, "job", n)
				cancel()
				if lease != nil || !errors.Is(err, locker.ErrHeldByCaller) || s.Requests() != before {
					t.Errorf("%d permits, %s waits: %v, %v with %d requests, want ErrHeldByCaller without one",
						n, what, lease, err, s.Requests()-before)
				}
				release(t, held...)
				release(t, (<-first).lease)
				synctest.Wait() // what else it was granted is given back
			}
		}
	})
}

// That the caller has one slot itself is not the answer if others have the rest.
func TestPermitsOfTheCallerAndOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, other := openMem(t, s), openMem(t, s)
		for _, n := range []int{2, 3, 12} {
			for range 30 {
				ctx, held := withPermits(t, l, n, n-1)
				held = append(held, tryPermit(t, other, n))
				_, err := locker.TryAcquirePermit(ctx, l, "job", n)
				wantErr(t, "TryAcquirePermit", err, "job", locker.ErrHeld)
				if errors.Is(err, locker.ErrHeldByCaller) {
					t.Fatalf("%d permits: %v, want no ErrHeldByCaller: another Locker has one", n, err)
				}
				release(t, held...)
			}
		}
	})
}

// withPermits acquires k of n permits of job, and returns a context that comes from all of them.
func withPermits(t *testing.T, l locker.Locker, n, k int) (context.Context, []locker.Lease) {
	t.Helper()
	ctx, held := t.Context(), make([]locker.Lease, k)
	for i := range held {
		held[i] = tryPermit(t, l, n)
		inner, cancel := locker.WithLease(ctx, held[i])
		t.Cleanup(cancel)
		ctx = inner
	}
	return ctx, held
}

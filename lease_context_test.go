package locker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/leasectx"
)

func TestLeaseFrom(t *testing.T) {
	if lease, ok := locker.LeaseFrom(t.Context()); ok || lease != nil {
		t.Errorf("LeaseFrom a context without a lease = %v, %v", lease, ok)
	}
	if leases := leasectx.All[locker.Lease](t.Context()); leases != nil {
		t.Errorf("leases of a context without any: %v", leases)
	}
	synctest.Test(t, func(t *testing.T) {
		outer, inner := newFakeLease(), newFakeLease()
		ctx, cancel := locker.WithLease(t.Context(), outer)
		defer cancel()
		child, cancelChild := context.WithTimeout(ctx, time.Hour)
		defer cancelChild()
		nested, cancelNested := locker.WithLease(child, inner)
		defer cancelNested()
		for _, tc := range []struct {
			ctx  context.Context
			want []locker.Lease
		}{
			{nested, []locker.Lease{inner, outer}},
			{context.WithoutCancel(nested), []locker.Lease{inner, outer}},
			{child, []locker.Lease{outer}},
		} {
			if got := leasectx.All[locker.Lease](tc.ctx); !slices.Equal(got, tc.want) {
				t.Errorf("leases = %v, want %v: the inner one first", got, tc.want)
			}
			if got, ok := locker.LeaseFrom(tc.ctx); !ok || got != tc.want[0] {
				t.Errorf("LeaseFrom = %v, %v, want %v, the innermost one", got, ok, tc.want[0])
			}
		}
	})
}

func TestContext(t *testing.T) {
	cause := errors.New("shutting down")
	for _, tc := range []struct {
		name  string
		act   func(lease *fakeLease, cancelParent context.CancelCauseFunc, cancel context.CancelFunc)
		cause error
	}{
		{"lease is lost", func(l *fakeLease, _ context.CancelCauseFunc, _ context.CancelFunc) { l.end(lost("expired")) }, locker.ErrLost},
		{"lease is released", func(l *fakeLease, _ context.CancelCauseFunc, _ context.CancelFunc) { l.end(locker.ErrReleased) }, locker.ErrReleased},
		{"parent ends", func(_ *fakeLease, p context.CancelCauseFunc, _ context.CancelFunc) { p(cause) }, cause},
		{"cancelled", func(_ *fakeLease, _ context.CancelCauseFunc, c context.CancelFunc) { c(); c() }, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := newFakeLease()
				parent, cancelParent := context.WithCancelCause(t.Context())
				defer cancelParent(nil)
				ctx, cancel := locker.WithLease(parent, lease)
				defer cancel()
				if ctx.Err() != nil {
					t.Fatalf("Err = %v before anything ended", ctx.Err())
				}
				child, cancelChild := context.WithCancel(ctx)
				defer cancelChild()
				tc.act(lease, cancelParent, cancel)
				<-child.Done()
				if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), tc.cause) {
					t.Errorf("Err = %v, cause = %v, want Canceled and %v", ctx.Err(), context.Cause(ctx), tc.cause)
				}
			})
		})
	}
}

func TestContextOfAnEndedLeaseIsOver(t *testing.T) {
	lease := newFakeLease()
	lease.end(lost("expired"))
	ctx, cancel := locker.WithLease(t.Context(), lease)
	defer cancel()
	wantLost(t, ctx)
}

// wantLost fails the test unless ctx is over because a lease was lost.
func wantLost(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	default:
		t.Error("Done is open")
	}
	if ctx.Err() == nil || !errors.Is(context.Cause(ctx), locker.ErrLost) {
		t.Errorf("Err = %v, cause = %v, want it over by ErrLost", ctx.Err(), context.Cause(ctx))
	}
}

// A process that was stopped sees the end before any timer has run: Err of the lease reads the
// clock, and so must Err of the context.
func TestContextErrLooksAtTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := newFakeLease()
		ctx, cancel := locker.WithLease(t.Context(), lease)
		defer cancel()
		lease.err = lost("its deadline has passed") // and Done isn't closed yet
		if ctx.Err() == nil {
			t.Error("Err = nil although the lease is lost")
		}
		wantLost(t, ctx) // Done as well: Err is not set before, says context.Context
	})
}

// A holder of two locks sees the end of either at its first check.
func TestContextErrLooksAtTheOuterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := newFakeLease(), newFakeLease()
		ctx, cancel := locker.WithLease(t.Context(), outer)
		defer cancel()
		limited, cancelLimited := context.WithTimeout(ctx, time.Hour)
		defer cancelLimited()
		nested, cancelNested := locker.WithLease(limited, inner)
		defer cancelNested()
		apart, cancelApart := locker.WithLease(context.WithoutCancel(ctx), inner)
		defer cancelApart()
		outer.err = lost("its deadline has passed") // and Done isn't closed yet
		if nested.Err() == nil {
			t.Error("Err = nil although the outer lease is lost")
		}
		wantLost(t, nested)
		if err := apart.Err(); err != nil {
			t.Errorf("Err of a context that doesn't end with the outer one = %v", err)
		}
	})
}

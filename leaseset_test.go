package locker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

func TestLeaseSetEndsWithTheFirstLoss(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l := openMem(t, s)
		err := locker.DoAll(t.Context(), l, []locker.Want{{Name: "a", Opts: []locker.Option{locker.WithTTL(time.Hour)}}, {Name: "b"}},
			func(ctx context.Context, leases *locker.LeaseSet) error {
				if d := leases.Deadline(); d != leases.Lease("b").Deadline() || !d.Before(leases.Lease("a").Deadline()) {
					t.Errorf("Deadline = %v, want the earliest", d)
				}
				if _, err := l.Acquire(ctx, "a"); !errors.Is(err, locker.ErrHeldByCaller) {
					t.Errorf("Acquire of a lock that is held = %v, want ErrHeldByCaller", err)
				}
				if _, err := locker.AcquireAll(ctx, l, locker.Wants("a", "c")); !errors.Is(err, locker.ErrHeldByCaller) {
					t.Errorf("AcquireAll of a lock that is held = %v, want ErrHeldByCaller", err)
				}
				select {
				case <-leases.Done():
					t.Error("Done is closed")
				default:
				}
				s.Expire("b")
				<-leases.Done()
				wantErr(t, "Err", leases.Err(), "b", locker.ErrLost)
				<-ctx.Done()
				if leases.Lease("a").Err() != nil {
					t.Error("the loss of one lock has ended the other lease before its release")
				}
				return context.Cause(ctx)
			})
		wantErr(t, "DoAll", err, "b", locker.ErrLost)
		if n := strings.Count(err.Error(), "locker: "); n != 1 {
			t.Errorf("DoAll = %v: the loss is named %d times", err, n)
		}
		wantAllFree(t, s, "a", "b")
	})
}

func TestDoAllReleasesAfterAPanic(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l := openMem(t, s)
		func() {
			defer func() { _ = recover() }()
			_ = locker.DoAll(t.Context(), l, locker.Wants("a", "b"), func(context.Context, *locker.LeaseSet) error { panic("fn") })
		}()
		wantAllFree(t, s, "a", "b")
	})
}

// A panic comes on the caller's goroutine, where it can be recovered.
func TestLeaseSetReleaseWithoutContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		set, err := locker.AcquireAll(t.Context(), openMem(t, s), locker.Wants("a", "b"))
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("Release(nil) doesn't panic")
				}
			}()
			_ = set.Release(nil) //nolint:staticcheck // a program's mistake
		}()
		if err := set.Err(); err != nil {
			t.Errorf("Err after Release(nil) = %v, want nil", err)
		}
		if err := set.Release(t.Context()); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
		wantAllFree(t, s, "a", "b")
	})
}

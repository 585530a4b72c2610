package locker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// panicsAtRelease hands out leases of one name whose Release panics.
type panicsAtRelease struct {
	locker.Locker
	name  string
	after time.Duration // so long after Release was called
}

func (p panicsAtRelease) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := p.Locker.Acquire(ctx, name, opts...)
	if err != nil || name != p.name {
		return lease, err
	}
	return panickingLease{lease, p.after}, nil
}

type panickingLease struct {
	locker.Lease
	after time.Duration
}

const defect = "a defect of the locker"

func (l panickingLease) Release(ctx context.Context) error {
	_ = l.Lease.Release(ctx)
	time.Sleep(l.after)
	panic(defect)
}

// wantDefect fails the test unless the panic of a Locker reaches the caller of acquire.
func wantDefect(t *testing.T, what string, acquire func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if r := recover(); r != defect {
			t.Errorf("%s: recovered %v, want the panic of the locker", what, r)
		}
	}()
	acquire()
}

func TestAPanicOfReleaseReachesTheCallerOfAcquireAll(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		other := openMem(t, s)
		b, err := other.Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		abc := locker.Names("a", "b", "c")
		l := openMem(t, s)
		for _, name := range []string{"a", "c"} { // before and after the lock that is held
			wantDefect(t, "TryAcquireAll, with the defect of "+name, func() {
				_, _ = locker.TryAcquireAll(t.Context(), panicsAtRelease{l, name, time.Second}, abc...)
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantDefect(t, "AcquireAll that runs out of time", func() {
			_, _ = locker.AcquireAll(ctx, panicsAtRelease{l, "c", time.Second}, abc...)
		})
		synctest.Wait()
		wantAllFree(t, s, "a", "c")

		time.AfterFunc(time.Second, func() { release(t, b) })
		wantDefect(t, "AcquireAll that gets the lock that it waits for", func() {
			_, _ = locker.AcquireAll(t.Context(), panicsAtRelease{l, "c", time.Minute}, abc...)
		})
		synctest.Wait()
		wantAllFree(t, s, "a", "b", "c")
	})
}

package middleware_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/middleware"
)

// linkedTask runs a test in a bubble, with a reentrant Locker behind a link.
func linkedTask(t *testing.T, run func(t *testing.T, ctx context.Context, l locker.Locker, s *membackend.Server, link *membackend.Link)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, link := membackend.NewServer(), membackend.NewLink()
		l := middleware.Reentrant(membackend.New(membackend.WithServer(s), membackend.WithLink(link)))
		defer l.Close()
		run(t, middleware.WithTask(t.Context()), l, s, link)
	})
}

func startAcquire(ctx context.Context, l locker.Locker) <-chan error {
	failed := make(chan error, 1)
	go func() {
		lease, err := l.Acquire(ctx, "job")
		if err == nil {
			err = lease.Release(ctx)
		}
		failed <- err
	}()
	return failed
}

func wantTimeout(t *testing.T, what string, err error) {
	t.Helper()
	var e *locker.Error
	if !errors.Is(err, locker.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) || locker.OutcomeOf(err) != "timeout" ||
		!errors.As(err, &e) || e.Name != "job" {
		t.Errorf("%s = %v, outcome %s, want ErrHeld and DeadlineExceeded", what, err, locker.OutcomeOf(err))
	}
}

// A wait for the acquisition of the own task ends like any other wait.
func TestReentrantWaitForTheOwnAcquisitionRunsOutOfTime(t *testing.T) {
	linkedTask(t, func(t *testing.T, ctx context.Context, l locker.Locker, s *membackend.Server, _ *membackend.Link) {
		other := membackend.New(membackend.WithServer(s))
		defer other.Close()
		held := acquire(t, t.Context(), other)
		defer release(t, held)
		first, giveUp := context.WithCancel(ctx)
		failed := startAcquire(first, l)
		synctest.Wait()

		short, cancel := context.WithTimeoutCause(ctx, time.Second, locker.ErrClosed) // a cause of the caller's own
		defer cancel()
		_, err := l.Acquire(short, "job")
		wantTimeout(t, "a wait of one second", err)

		cancelled, stop := context.WithCancel(ctx)
		time.AfterFunc(time.Second, stop)
		if _, err := l.Acquire(cancelled, "job"); errors.Is(err, locker.ErrHeld) || locker.OutcomeOf(err) != "canceled" {
			t.Errorf("a wait that is cancelled = %v, outcome %s, want canceled", err, locker.OutcomeOf(err))
		}
		giveUp()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("the first call = %v, want that it was cancelled", err)
		}
	})
}

// All requests of a task may have the same deadline, so that the one that asks is gone as well.
func TestReentrantWaitsThatRunOutOfTimeTogether(t *testing.T) {
	for range 20 {
		linkedTask(t, func(t *testing.T, ctx context.Context, l locker.Locker, s *membackend.Server, _ *membackend.Link) {
			other := membackend.New(membackend.WithServer(s))
			defer other.Close()
			held := acquire(t, t.Context(), other)
			defer release(t, held)
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			var waits []<-chan error
			for range 5 {
				waits = append(waits, startAcquire(ctx, l))
			}
			for _, failed := range waits {
				wantTimeout(t, "one of several waits", <-failed)
			}
		})
	}
}

// While the lease of the task is being released, the lock is held.
func TestReentrantWaitForARelease(t *testing.T) {
	linkedTask(t, func(t *testing.T, ctx context.Context, l locker.Locker, _ *membackend.Server, link *membackend.Link) {
		lease := acquire(t, ctx, l)
		link.Delay(100*time.Millisecond, 100*time.Millisecond)
		released := make(chan error, 1)
		go func() { released <- lease.Release(ctx) }()
		synctest.Wait()
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := l.Acquire(short, "job", locker.NoWait())
		wantTimeout(t, "a short wait", err)
		if err := <-released; err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
		link.Delay(0, 0)
	})
}

package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/middleware"
)

// A handle that has ended keeps its deadline: the renewals that follow are for the others.
func TestDeadlineOfAHandleThatHasEnded(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, l locker.Locker, _ *membackend.Server) {
		outer, inner := acquire(t, ctx, l), acquire(t, ctx, l)
		want := inner.Deadline()
		release(t, inner)
		time.Sleep(time.Minute) // several renewals
		if got := inner.Deadline(); !got.Equal(want) {
			t.Errorf("the deadline of a handle that was released has moved by %v", got.Sub(want))
		}
		if got := outer.Deadline(); !got.After(want) {
			t.Errorf("the deadline of the handle that is left is %v before the one of the released handle", want.Sub(got))
		}
		release(t, outer)
	})
}

// slowRelease is a Locker whose leases are given back a second late. With stuck they are given back
// when that is closed.
type slowRelease struct {
	locker.Locker
	stuck chan struct{}
}

type slowLease struct {
	locker.Lease
	stuck chan struct{}
}

func (s slowRelease) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := s.Locker.Acquire(ctx, name, opts...)
	if err != nil {
		return nil, err
	}
	return slowLease{lease, s.stuck}, nil
}

func (s slowLease) Release(ctx context.Context) error {
	if s.stuck != nil {
		<-s.stuck
	}
	time.Sleep(time.Second)
	return s.Lease.Release(ctx)
}

// While the last handle of a task is being released, the task isn't kept out by its own lease.
func TestReentrantAcquireDuringTheLastRelease(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, _ locker.Locker, s *membackend.Server) {
		l := middleware.Reentrant(slowRelease{Locker: membackend.New(membackend.WithServer(s))})
		defer l.Close()
		first := acquire(t, ctx, l)
		released := make(chan error, 1)
		go func() { released <- first.Release(ctx) }()
		synctest.Wait() // it is under way
		if _, err := l.Acquire(middleware.WithTask(t.Context()), "job", locker.NoWait()); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("another task, during the release: %v, want ErrHeld", err)
		}
		next := acquire(t, ctx, l, locker.NoWait())
		if err := <-released; err != nil {
			t.Errorf("Release = %v", err)
		}
		if next.Token() == first.Token() {
			t.Error("a handle on a lease that was being released")
		}
		if err := next.Err(); err != nil {
			t.Errorf("Err of the next lease = %v, want nil", err)
		}
		release(t, next)
	})
}

// A Release that hangs holds up a caller of the same task no longer than that caller's context
// allows.
func TestReentrantAcquireGivesUpDuringTheLastRelease(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, _ locker.Locker, s *membackend.Server) {
		stuck := make(chan struct{})
		l := middleware.Reentrant(slowRelease{membackend.New(membackend.WithServer(s)), stuck})
		defer l.Close()
		first := acquire(t, ctx, l)
		released := make(chan error, 1)
		go func() { released <- first.Release(ctx) }()
		synctest.Wait()
		for what, opts := range map[string][]locker.Option{"waiting": nil, "NoWait": {locker.NoWait()}} {
			short, cancel := context.WithTimeout(ctx, time.Minute)
			began := time.Now()
			_, err := l.Acquire(short, "job", opts...)
			cancel()
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
				t.Errorf("%s, during a release that hangs: %v after %v, want DeadlineExceeded after a minute", what, err, took)
			}
		}
		close(stuck)
		if err := <-released; err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

// A Release without a context panics, and changes nothing.
func TestReentrantReleaseWithoutContext(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, l locker.Locker, _ *membackend.Server) {
		first := acquire(t, ctx, l)
		func() {
			defer func() { _ = recover() }()
			_ = first.Release(nil) //nolint:staticcheck // a program's mistake
		}()
		if err := first.Err(); err != nil {
			t.Errorf("Err after Release(nil) = %v, want nil", err)
		}
		release(t, acquire(t, ctx, l, locker.NoWait()))
		release(t, first)
	})
}

// A Release that panics must not keep its task out.
func TestReentrantAfterAReleaseThatPanics(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, _ locker.Locker, s *membackend.Server) {
		l := middleware.Reentrant(panicsOnRelease{membackend.New(membackend.WithServer(s))})
		defer l.Close()
		first := acquire(t, ctx, l)
		func() {
			defer func() { _ = recover() }()
			_ = first.Release(ctx)
		}()
		s.Expire("job")
		release(t, acquire(t, ctx, l).(interface{ Unwrap() any }).Unwrap().(panickingLease).Lease)
	})
}

type panicsOnRelease struct{ locker.Locker }

type panickingLease struct{ locker.Lease }

func (p panicsOnRelease) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := p.Locker.Acquire(ctx, name, opts...)
	if err != nil {
		return nil, err
	}
	return panickingLease{lease}, nil
}

func (panickingLease) Release(context.Context) error { panic("a defect of the locker") }

// Tasks whose leases have ended, and that neither release them nor ask again, leave nothing for ever.
func TestReentrantForgetsLeasesThatHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := middleware.Reentrant(membackend.New())
		defer l.Close()
		kept := acquire(t, middleware.WithTask(t.Context()), l)
		const tasks = 4 * middleware.PruneFrom
		for i := range tasks {
			_, err := l.Acquire(middleware.WithTask(t.Context()), fmt.Sprint("job-", i), locker.WithTTL(time.Second), locker.WithoutRenewal())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := middleware.Holdings(l); n > middleware.PruneFrom {
			t.Errorf("%d leases are known after %d tasks, want %d at most", n, tasks, middleware.PruneFrom)
		}
		release(t, kept)
	})
}

// onRenew is a Locker that calls hook at each renewal by hand.
type onRenew struct {
	locker.Locker
	hook func()
}

type renewedLease struct {
	locker.Lease
	hook func()
}

func (l onRenew) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := l.Locker.Acquire(ctx, name, opts...)
	if err != nil {
		return nil, err
	}
	return renewedLease{lease, l.hook}, nil
}

func (l renewedLease) Renew(ctx context.Context) error {
	l.hook()
	return l.Lease.Renew(ctx)
}

// A renewal of a handle that is released meanwhile says so, though the lease goes on.
func TestReentrantRenewDuringARelease(t *testing.T) {
	var second locker.Lease
	l := middleware.Reentrant(onRenew{membackend.New(), func() { release(t, second) }})
	defer l.Close()
	ctx := middleware.WithTask(t.Context())
	first := acquire(t, ctx, l)
	second = acquire(t, ctx, l)
	if err := second.Renew(ctx); !errors.Is(err, locker.ErrReleased) {
		t.Errorf("Renew = %v, want ErrReleased", err)
	}
	if err := first.Err(); err != nil {
		t.Errorf("Err of the other handle = %v, want nil", err)
	}
	release(t, first)
}

package middleware_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/middleware"
)

// task runs a test in a bubble, with a reentrant Locker and the context of a task.
func task(t *testing.T, run func(t *testing.T, ctx context.Context, l locker.Locker, s *membackend.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		l := middleware.Reentrant(membackend.New(membackend.WithServer(s)))
		defer func() {
			synctest.Wait()
			if left := s.Residue(); left != "" {
				t.Errorf("left on the service: %s", left)
			}
			if err := l.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		}()
		run(t, middleware.WithTask(t.Context()), l, s)
	})
}

func acquire(t *testing.T, ctx context.Context, l locker.Locker, opts ...locker.Option) locker.Lease {
	t.Helper()
	lease, err := l.Acquire(ctx, "job", opts...)
	if err != nil {
		t.Fatalf("Acquire = %v, want a lease", err)
	}
	return lease
}

func release(t *testing.T, leases ...locker.Lease) {
	t.Helper()
	for _, lease := range leases {
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
	}
}

func TestReentrantGrantsHandlesWithoutRequests(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, l locker.Locker, s *membackend.Server) {
		outer := acquire(t, ctx, l, locker.WithTTL(time.Minute))
		before := s.Requests()
		inner := acquire(t, ctx, l, locker.WithTTL(time.Second), locker.NoWait(), locker.WithHolder("inner"))
		if inner.Token() != outer.Token() || inner.Name() != "job" || !inner.Deadline().Equal(outer.Deadline()) {
			t.Errorf("the handle is %q with token %v until %v", inner.Name(), inner.Token(), inner.Deadline())
		}
		release(t, outer)
		if n := s.Requests() - before; n != 0 {
			t.Errorf("a further handle and the release of the first cost %d requests, want none", n)
		}
		if err := outer.Err(); !errors.Is(err, locker.ErrReleased) || errors.Is(err, locker.ErrLost) {
			t.Errorf("Err of the handle that was released = %v, want ErrReleased", err)
		}
		if err := outer.Renew(ctx); !errors.Is(err, locker.ErrReleased) {
			t.Errorf("Renew of the handle that was released = %v, want ErrReleased", err)
		}
		<-outer.Done()
		select {
		case <-inner.Done():
			t.Error("the release of one handle has ended another")
		default:
		}
		if err := errors.Join(inner.Err(), inner.Renew(ctx)); err != nil {
			t.Errorf("the other handle: %v", err)
		}
		release(t, inner, inner, outer)
		if n := s.Requests() - before; n != 2 {
			t.Errorf("a renewal and the last release, twice, cost %d requests, want 2", n)
		}
	})
}

func TestReentrantWithoutAnOwnerChangesNothing(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, l locker.Locker, _ *membackend.Server) {
		lease := acquire(t, t.Context(), l)
		for what, ctx := range map[string]context.Context{"no task": t.Context(), "a task": ctx, "another task": middleware.WithTask(ctx)} {
			if _, err := l.Acquire(ctx, "job", locker.NoWait()); !errors.Is(err, locker.ErrHeld) {
				t.Errorf("%s: %v, want ErrHeld", what, err)
			}
		}
		release(t, lease)
	})
}

func TestReentrantDo(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, l locker.Locker, s *membackend.Server) {
		depth := 0
		var nest func(ctx context.Context, lease locker.Lease) error
		nest = func(ctx context.Context, _ locker.Lease) error {
			if depth++; depth == 5 {
				return nil
			}
			return locker.Do(ctx, l, "job", nest)
		}
		if err := locker.Do(ctx, l, "job", nest); err != nil || depth != 5 {
			t.Errorf("five calls inside of each other = %v at depth %d", err, depth)
		}
		if n := s.Requests(); n != 2 {
			t.Errorf("they cost %d requests, want 2", n)
		}
	})
}

func TestReentrantAcquireAll(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, l locker.Locker, _ *membackend.Server) {
		outer := acquire(t, ctx, l)
		leases, err := locker.AcquireAll(ctx, l, locker.Wants("a", "job", "z"))
		if err != nil {
			t.Fatal(err)
		}
		if leases.Lease("job").Token() != outer.Token() {
			t.Error("the task's lock is another one among several")
		}
		if err := leases.Release(ctx); err != nil {
			t.Error(err)
		}
		if err := outer.Err(); err != nil {
			t.Errorf("Err = %v, want nil", err)
		}
		release(t, outer)
	})
}

func TestReentrantRefusesWhatTheLeaseHasNot(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, l locker.Locker, s *membackend.Server) {
		future := func(r *locker.Request) { r.Features |= 1 << 31 }
		refused := func(opts ...locker.Option) {
			t.Helper()
			before := s.Requests()
			lease, err := l.Acquire(ctx, "job", opts...)
			var e *locker.Error
			if !errors.Is(err, locker.ErrOption) || !errors.As(err, &e) || e.Name != "job" || lease != nil {
				t.Errorf("Acquire = %v, %v, want ErrOption", lease, err)
			}
			if n := s.Requests() - before; n != 0 {
				t.Errorf("a refusal cost %d requests", n)
			}
		}
		first := acquire(t, ctx, l, locker.WithTTL(time.Minute))
		refused(locker.WithTTL(time.Minute + 1))
		refused(locker.WithMaxHold(time.Hour))
		refused(locker.WithoutRenewal())
		refused(future)
		release(t, first)

		first = acquire(t, ctx, l)
		refused(locker.WithTTL(time.Millisecond)) // the TTL of the Locker isn't known here
		release(t, acquire(t, ctx, l), first)
	})
}

func TestReentrantLossEndsAllHandles(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, l locker.Locker, s *membackend.Server) {
		handles := []locker.Lease{acquire(t, ctx, l), acquire(t, ctx, l), acquire(t, ctx, l)}
		watched := handles[0].Done()
		s.Expire("job")
		<-watched
		for i, lease := range handles {
			if err := lease.Err(); !errors.Is(err, locker.ErrLost) {
				t.Errorf("Err of handle %d = %v, want ErrLost", i, err)
			}
			<-lease.Done()
		}
		again := acquire(t, ctx, l) // another lease of the task
		if again.Token() == handles[0].Token() {
			t.Error("a handle on a lease that was lost")
		}
		for i, lease := range handles {
			for range 2 {
				if err := lease.Release(ctx); !errors.Is(err, locker.ErrLost) {
					t.Errorf("Release of handle %d = %v, want ErrLost", i, err)
				}
			}
			if err := lease.Err(); !errors.Is(err, locker.ErrLost) || errors.Is(err, locker.ErrReleased) {
				t.Errorf("Err of handle %d after its release = %v, want ErrLost still", i, err)
			}
		}
		further := acquire(t, ctx, l)
		release(t, again)
		if err := further.Err(); err != nil {
			t.Errorf("the releases of old handles have ended the new lease: %v", err)
		}
		release(t, further)
	})
}

// Those that wait for the acquisition of their own task.
func TestReentrantWaitsForItsOwnAcquisition(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, l locker.Locker, s *membackend.Server) {
		other := membackend.New(membackend.WithServer(s))
		defer other.Close()
		held := acquire(t, t.Context(), other)

		firstCtx, giveUp := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() {
			_, err := l.Acquire(firstCtx, "job")
			failed <- err
		}()
		synctest.Wait()
		if _, err := l.Acquire(ctx, "job", locker.NoWait()); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("with NoWait, while the task acquires: %v, want ErrHeld", err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		if _, err := l.Acquire(short, "job"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a short wait for the task's acquisition = %v, want DeadlineExceeded", err)
		}
		cancel()
		var mu sync.Mutex
		var handles []locker.Lease
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				lease, err := l.Acquire(ctx, "job")
				if err != nil {
					t.Errorf("Acquire after the first one has given up = %v, want a lease", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				handles = append(handles, lease)
			})
		}
		synctest.Wait()
		giveUp()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("the first one = %v, want context.Canceled", err)
		}
		synctest.Wait()
		release(t, held)
		all.Wait()
		for _, lease := range handles {
			if lease.Token() != handles[0].Token() {
				t.Error("one task has two leases")
			}
		}
		release(t, handles...)
	})
}

func TestReentrantAfterAPanicAndClose(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, _ locker.Locker, s *membackend.Server) {
		panics := true
		l := middleware.Reentrant(sometimes{membackend.New(membackend.WithServer(s)), &panics})
		func() {
			defer func() { _ = recover() }()
			_, _ = l.Acquire(ctx, "job")
		}()
		panics = false
		lease := acquire(t, ctx, l)
		inner := acquire(t, ctx, l)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for _, lease := range []locker.Lease{lease, inner} {
			if err := lease.Err(); !errors.Is(err, locker.ErrClosed) || !errors.Is(err, locker.ErrReleased) {
				t.Errorf("Err after Close = %v, want ErrClosed and ErrReleased", err)
			}
		}
		if _, err := l.Acquire(ctx, "job"); !errors.Is(err, locker.ErrClosed) {
			t.Errorf("Acquire after Close = %v, want ErrClosed", err)
		}
	})
}

type sometimes struct {
	locker.Locker
	panics *bool
}

func (s sometimes) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	if *s.panics {
		panic("a defect of the locker")
	}
	return s.Locker.Acquire(ctx, name, opts...)
}

// Tasks that get in and out at random: at most one of them is in.
func TestReentrantTasksExcludeEachOther(t *testing.T) {
	task(t, func(t *testing.T, _ context.Context, l locker.Locker, _ *membackend.Server) {
		var mu sync.Mutex
		inside := make(map[context.Context]int)
		var all sync.WaitGroup
		for range 4 {
			ctx := middleware.WithTask(t.Context())
			for range 3 { // goroutines of one task
				all.Go(func() {
					for range 100 {
						lease, err := l.Acquire(ctx, "job")
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						inside[ctx]++
						if len(inside) != 1 {
							t.Error("two tasks are in")
						}
						mu.Unlock()
						time.Sleep(time.Microsecond)
						mu.Lock()
						if inside[ctx]--; inside[ctx] == 0 {
							delete(inside, ctx)
						}
						mu.Unlock()
						if err := lease.Release(ctx); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
	})
}

func TestReentrantUnwraps(t *testing.T) {
	task(t, func(t *testing.T, ctx context.Context, l locker.Locker, _ *membackend.Server) {
		lease := acquire(t, ctx, l)
		if got, err := locker.CurrentToken(ctx, l, "job"); got != lease.Token() || err != nil {
			t.Errorf("CurrentToken = %v, %v, want %v", got, err, lease.Token())
		}
		u, ok := lease.(interface{ Unwrap() any })
		if !ok || u.Unwrap().(locker.Lease).Token() != lease.Token() {
			t.Error("the handle doesn't lead to its lease")
		}
		release(t, lease)
	})
}

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

// bubble runs a test with its own clock, on a service of its own.
func bubble(t *testing.T, run func(t *testing.T, s *membackend.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		run(t, s)
		synctest.Wait()
		if left := s.Residue(); left != "" {
			t.Errorf("left on the service: %s", left)
		}
	})
}

func openMem(t *testing.T, s *membackend.Server, opts ...membackend.Option) locker.Locker {
	t.Helper()
	l := membackend.New(append(opts, membackend.WithServer(s))...)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return l
}

func wantErr(t *testing.T, what string, err error, name string, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s = %v, want an error that matches %v", what, err, target)
		}
	}
	var e *locker.Error
	if !errors.As(err, &e) || e.Name != name {
		t.Errorf("%s = %v, want an error that names lock %q", what, err, name)
	}
}

func wantAllFree(t *testing.T, s *membackend.Server, names ...string) {
	t.Helper()
	l := membackend.New(membackend.WithServer(s))
	defer l.Close()
	for _, name := range names {
		if lease, err := locker.TryAcquire(t.Context(), l, name); err != nil {
			t.Errorf("%q isn't free: %v", name, err)
		} else if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestAcquireAllIsOneRoundTripInDepth(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		link := membackend.NewLink()
		l := openMem(t, s, membackend.WithLink(link))
		link.Delay(30*time.Millisecond, 20*time.Millisecond)
		before, began := s.Requests(), time.Now()
		leases, err := locker.AcquireAll(t.Context(), l, locker.Wants("e", "b", "d", "a", "c"))
		if err != nil {
			t.Fatal(err)
		}
		if took, n := time.Since(began), s.Requests()-before; took != 50*time.Millisecond || n != 5 {
			t.Errorf("five free locks took %v and %d requests, want one round trip of 50ms and 5", took, n)
		}
		began = time.Now()
		if err := leases.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if took, n := time.Since(began), s.Requests()-before; took != 50*time.Millisecond || n != 10 {
			t.Errorf("their release took %v and %d requests in all, want 50ms and 10", took, n)
		}
	})
}

func TestTryAcquireAllIsAllOrNone(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, other := openMem(t, s), openMem(t, s)
		lease, err := other.Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		_, err = locker.TryAcquireAll(t.Context(), l, locker.Wants("c", "b", "a"))
		wantErr(t, "TryAcquireAll", err, "b", locker.ErrHeld)
		_, err = locker.AcquireAll(t.Context(), l, locker.Wants("c", "b", "a"), locker.NoWait())
		wantErr(t, "AcquireAll with NoWait", err, "b", locker.ErrHeld)
		wantAllFree(t, s, "a", "c")
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		leases, err := locker.TryAcquireAll(t.Context(), l, locker.Wants("c", "b", "a"))
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"c", "b", "a"} {
			if got := leases.All()[i]; got.Name() != name || leases.Lease(name) != got || got.Err() != nil {
				t.Errorf("lease %d is %q, Err %v, want a live lease of %q", i, got.Name(), got.Err(), name)
			}
		}
		if leases.Lease("d") != nil {
			t.Error("there is a lease of a lock that nobody wanted")
		}
		if err := leases.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// While a call waits for a lock, it has the ones before it and none after it.
func TestAcquireAllWaitsInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, other := openMem(t, s), openMem(t, s)
		b, err := other.Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan *locker.LeaseSet, 1)
		go func() {
			leases, err := locker.AcquireAll(t.Context(), l, locker.Wants("c", "a", "b"))
			if err != nil {
				t.Error(err)
			}
			granted <- leases
		}()
		synctest.Wait()
		if _, err := locker.TryAcquire(t.Context(), other, "a"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("the first lock: %v, want it held while the second is waited for", err)
		}
		wantAllFree(t, s, "c")
		if err := b.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := (<-granted).Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAcquireAllThatGivesUpLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, other := openMem(t, s), openMem(t, s)
		lease, err := other.Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = locker.AcquireAll(ctx, l, locker.Wants("a", "b", "c"))
		wantErr(t, "AcquireAll", err, "b", locker.ErrHeld, context.DeadlineExceeded)
		synctest.Wait()
		wantAllFree(t, s, "a", "c")
		gone := errors.New("the user has gone")
		caused, stop := context.WithCancelCause(t.Context())
		stop(gone)
		_, err = locker.AcquireAll(caused, l, locker.Wants("a", "b", "c"))
		wantErr(t, "AcquireAll", err, "a", context.Canceled, gone)
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A lease that is lost while another lock is waited for makes the call begin again.
func TestAcquireAllBeginsAgainAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, other := openMem(t, s), openMem(t, s)
		b, err := other.Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan *locker.LeaseSet, 1)
		go func() {
			leases, err := locker.AcquireAll(t.Context(), l, locker.Wants("a", "a2", "b"))
			if err != nil {
				t.Error(err)
			}
			granted <- leases
		}()
		synctest.Wait()
		if !s.Expire("a") {
			t.Fatal("the first lock isn't held")
		}
		a, err := locker.TryAcquire(t.Context(), other, "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		wantAllFree(t, s, "a2") // it waits for a, which comes before
		if err := errors.Join(a.Release(t.Context()), b.Release(t.Context())); err != nil {
			t.Error(err)
		}
		leases := <-granted
		if err := leases.Err(); err != nil {
			t.Errorf("Err = %v, want nil", err)
		}
		if err := leases.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// disturbed calls before for each name before it acquires.
type disturbed struct {
	locker.Locker
	before func(name string) error
}

func (d *disturbed) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	if err := d.before(name); err != nil {
		return nil, &locker.Error{Op: "acquire", Name: name, Err: err}
	}
	return d.Locker.Acquire(ctx, name, opts...)
}

func TestAcquireAllReleasesAfterAFailureAndAPanic(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		broken := errors.New("connection refused")
		fails := &disturbed{openMem(t, s), func(name string) error {
			if name == "b" {
				return broken
			}
			return nil
		}}
		_, err := locker.AcquireAll(t.Context(), fails, locker.Wants("a", "b", "c"))
		wantErr(t, "AcquireAll", err, "b", broken)
		wantAllFree(t, s, "a", "b", "c")

		panics := &disturbed{openMem(t, s), func(name string) error {
			if name == "b" {
				panic("a defect of the locker")
			}
			return nil
		}}
		func() {
			defer func() {
				if recover() != "a defect of the locker" {
					t.Error("the panic doesn't reach the caller")
				}
			}()
			_, _ = locker.AcquireAll(t.Context(), panics, locker.Wants("a", "b", "c"))
		}()
		wantAllFree(t, s, "a", "b", "c")
	})
}

func TestAcquireAllWhoseLockerIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, second, other := openMem(t, s), openMem(t, s), openMem(t, s)
		b, err := other.Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := locker.AcquireInOrder(t.Context(), []locker.Item{{l, locker.Want{Name: "a"}}, {second, locker.Want{Name: "b"}}})
			failed <- err
		}()
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, "AcquireInOrder", <-failed, "a", locker.ErrClosed)
		if err := b.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAcquireInOrderWaitsInTheOrderGiven(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		moved := membackend.NewServer()
		old, recent, other := openMem(t, s), openMem(t, moved), openMem(t, moved)
		held, err := other.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan *locker.LeaseSet, 1)
		go func() {
			leases, err := locker.AcquireInOrder(t.Context(), []locker.Item{
				{old, locker.Want{Name: "x"}}, {recent, locker.Want{Name: "x"}}, {old, locker.Want{Name: "a"}},
			})
			if err != nil {
				t.Error(err)
			}
			granted <- leases
		}()
		synctest.Wait()
		wantAllFree(t, s, "a")
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		leases := <-granted
		if all := leases.All(); all[0] != leases.Lease("x") || all[0] == all[1] || all[2] != leases.Lease("a") {
			t.Errorf("leases = %v", all)
		}
		if err := leases.Release(t.Context()); err != nil {
			t.Error(err)
		}
		_, err = locker.AcquireInOrder(t.Context(), []locker.Item{{old, locker.Want{Name: "x"}}, {old, locker.Want{Name: "x"}}})
		wantErr(t, "the same lock twice", err, "x", locker.ErrName)
	})
}

// A context that never ends may outlive the leases that it comes from, so such a call waits.
func TestAcquireAllWithADetachedContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l := openMem(t, s)
		granted := make(chan error, 1)
		err := locker.Do(t.Context(), l, "b", func(ctx context.Context, _ locker.Lease) error {
			go func() {
				leases, err := locker.AcquireAll(context.WithoutCancel(ctx), l, locker.Wants("a", "b"))
				if err == nil {
					err = leases.Release(ctx)
				}
				granted <- err
			}()
			synctest.Wait()
			return nil
		})
		if err := errors.Join(err, <-granted); err != nil {
			t.Errorf("AcquireAll = %v, want it to wait for the lease", err)
		}
	})
}

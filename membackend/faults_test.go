package membackend_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// These tests show what each fault does to Lockers, as the tests of users see it.

func TestExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		first := mustAcquire(t, a, "name")
		waiter := wait(t, b, "name")
		if !s.Expire("name") {
			t.Error("Expire of a lock that is held = false")
		}
		synctest.Wait()
		wantOver(t, first, locker.ErrLost)
		second := (<-waiter).must(t)
		if second.Token() <= first.Token() {
			t.Errorf("token %d after %d", second.Token(), first.Token())
		}
		if err := first.Release(t.Context()); !errors.Is(err, locker.ErrLost) {
			t.Errorf("Release = %v, want %v", err, locker.ErrLost)
		}
		wantAlive(t, second)
		if s.Expire("other") {
			t.Error("Expire of a lock that is free = true")
		}
		s.Pause()
		if s.Expire("name") {
			t.Error("Expire on a paused service = true")
		}
		s.Resume()
		wantAlive(t, second)
	})
}

// A permit is a lease on a slot, and the lock of its name is another.
func TestExpireSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		permit, err := locker.TryAcquirePermit(t.Context(), a, "name", 1)
		if err != nil {
			t.Fatal(err)
		}
		lock := mustAcquire(t, b, "name")
		if s.ExpireSlot("name", 2) || s.ExpireSlot("other", 1) {
			t.Error("ExpireSlot of a slot that is free = true")
		}
		wantAlive(t, permit)
		if !s.ExpireSlot("name", locker.Slot(permit)) {
			t.Error("ExpireSlot of a permit = false")
		}
		synctest.Wait()
		wantOver(t, permit, locker.ErrLost)
		wantAlive(t, lock)
	})
}

var errTrouble = errors.New("trouble")

func TestRefuseRenewals(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		lease := mustAcquire(t, a, "name")
		s.RefuseRenewals(errTrouble)
		time.Sleep(ttl * 8 / 10) // what fails is tried again after a tenth of the TTL
		wantAlive(t, lease)
		if err := lease.Renew(t.Context()); !errors.Is(err, errTrouble) || errors.Is(err, locker.ErrLost) {
			t.Errorf("Renew = %v, want %v", err, errTrouble)
		}
		s.RefuseRenewals(nil)
		time.Sleep(2 * ttl)
		wantAlive(t, lease)

		s.RefuseRenewals(errTrouble)
		mustAcquire(t, b, "other")
		time.Sleep(ttl)
		wantOver(t, lease, errTrouble)
	})
}

func TestFail(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		lease := mustAcquire(t, a, "name")
		s.Fail(errTrouble)
		before := s.Requests()
		_, err := b.Acquire(t.Context(), "other")
		if !errors.Is(err, errTrouble) || errors.Is(err, locker.ErrHeld) {
			t.Errorf("Acquire = %v, want %v", err, errTrouble)
		}
		time.Sleep(ttl / 2)
		wantAlive(t, lease)
		if n := s.Requests() - before; n != 0 {
			t.Errorf("%d requests were executed by a service that fails, want none", n)
		}
		s.Fail(nil)
		time.Sleep(2 * ttl)
		wantAlive(t, lease)
		wantResidue(t, s, `"name" is held, and 0 wait`)
	})
}

// TestPauseBeyondTheTTL: the holder knows that it has lost the lock before the service can give it
// to somebody else, and the service removes what has expired before it executes the requests that
// came during the pause.
func TestPauseBeyondTheTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		first := mustAcquire(t, a, "name")
		waiter := wait(t, b, "name")
		time.Sleep(ttl / 2) // both have been renewed
		s.Pause()
		time.Sleep(ttl)
		wantOver(t, first, locker.ErrLost)
		select {
		case got := <-waiter:
			t.Errorf("Acquire = %v, %v from a paused service", got.lease, got.err)
		default:
		}
		s.Resume()
		second := (<-waiter).must(t)
		wantAlive(t, second)
		time.Sleep(2 * ttl)
		wantAlive(t, second)
	})
}

func TestPauseBelowTheTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		first := mustAcquire(t, a, "name")
		waiter := wait(t, b, "name")
		s.Pause()
		time.Sleep(ttl * 9 / 10)
		s.Resume()
		time.Sleep(2 * ttl)
		wantAlive(t, first)
		if err := first.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		(<-waiter).must(t)
	})
}

// TestPausedServiceKeepsRequests: they are executed in their order, even if their callers have
// given up.
func TestPausedServiceKeepsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		site := newSite(t, s)
		one, _ := site.held(locker.Request{Name: "one"})
		s.Pause()
		given := site.lock(locker.Request{Name: "given up"})
		kept := site.lock(locker.Request{Name: "kept"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, givenErr := given.Acquire(ctx)
		_, keptErr := kept.Acquire(ctx)
		if err := errors.Join(one.Release(ctx), given.Release(ctx)); err == nil || givenErr == nil || keptErr == nil {
			t.Errorf("Release = %v, Acquire = %v and %v, want errors", err, givenErr, keptErr)
		}
		wantResidue(t, s, `"one" is held, and 0 wait`)
		before := s.Requests()
		s.Resume()
		if n := s.Requests() - before; n != 3 {
			t.Errorf("%d requests were executed after Resume, want 3; that of a context that was over is none", n)
		}
		wantResidue(t, s, "")
	})
}

// TestResumeRemovesExpiredFirst: a renewal that waited while the TTL passed comes too late. While
// it is paused the service does nothing, and then it needs no request to do what is due.
func TestResumeRemovesExpiredFirst(t *testing.T) {
	for _, late := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := membackend.NewServer()
			one, two := newSite(t, s), newSite(t, s)
			first, _ := one.held(locker.Request{})
			time.Sleep(ttl / 2)
			second := two.queued(locker.Request{})
			s.Pause()
			if late {
				one.renew(first.Lock)
			}
			time.Sleep(ttl * 2 / 3)
			synctest.Wait()
			wantResidue(t, s, `"name" is held, and 1 wait`)
			if len(first.lost) > 0 {
				t.Errorf("a paused service has reported a loss: %v", <-first.lost)
			}
			s.Resume()
			if len(first.lost) != 1 {
				t.Errorf("lost was called %d times, want once", len(first.lost))
			}
			if g, err := second.Acquire(t.Context()); err != nil {
				t.Errorf("Acquire of the waiter = %+v, %v", g, err)
			}
			time.Sleep(ttl)
			synctest.Wait()
			wantResidue(t, s, "") // without renewal the waiter's lease has expired as well
		})
	}
}

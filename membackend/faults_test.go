package membackend_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/membackend"
)

// These tests show what each fault does to Lockers, as the tests of users see it.

// party is a Locker and the network between it and its service.
type party struct {
	locker.Locker
	*membackend.Link
}

func newParty(t *testing.T, s *membackend.Server) party {
	link := membackend.NewLink()
	l := membackend.New(membackend.WithServer(s), membackend.WithLink(link), membackend.WithTTL(ttl))
	t.Cleanup(func() { _ = l.Close() })
	return party{l, link}
}

// inBubble runs a test with a service and two Lockers in a bubble.
func inBubble(t *testing.T, f func(t *testing.T, s *membackend.Server, a, b party)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		f(t, s, newParty(t, s), newParty(t, s))
	})
}

// acquired is what a wait in the background came to.
type acquired struct {
	lease locker.Lease
	err   error
	at    time.Time
}

// wait starts an Acquire and returns when it is queued.
func wait(t *testing.T, l locker.Locker, name string) <-chan acquired {
	result := make(chan acquired, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), name)
		result <- acquired{lease, err, time.Now()}
	}()
	synctest.Wait()
	return result
}

func (a acquired) must(t *testing.T) locker.Lease {
	t.Helper()
	if a.err != nil {
		t.Fatalf("Acquire = %v", a.err)
	}
	return a.lease
}

// wantOver checks that a lease is lost, with a cause.
func wantOver(t *testing.T, l locker.Lease, cause error) {
	t.Helper()
	select {
	case <-l.Done():
	default:
		t.Errorf("Done is not closed; Err = %v", l.Err())
	}
	if err := l.Err(); !errors.Is(err, locker.ErrLost) || !errors.Is(err, cause) {
		t.Errorf("Err = %v, want %v because of %v", err, locker.ErrLost, cause)
	}
}

func wantAlive(t *testing.T, l locker.Lease) {
	t.Helper()
	if err := l.Err(); err != nil {
		t.Errorf("Err = %v, want nil", err)
	}
}

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
			t.Errorf("%d requests were carried out by a service that fails, want none", n)
		}
		s.Fail(nil)
		time.Sleep(2 * ttl)
		wantAlive(t, lease)
		wantResidue(t, s, `"name" is held, and 0 wait`)
	})
}

// TestPauseBeyondTheTTL: the holder knows that it has lost the lock before the service can give it to somebody else,
// and the service deals with what has expired before it listens to requests that came meanwhile.
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

// TestPausedServiceKeepsRequests: they are carried out in their order, though their callers have given up.
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
			t.Errorf("%d requests were carried out after Resume, want 3; that of a context that was over is none", n)
		}
		wantResidue(t, s, "")
	})
}

// TestResumeDealsWithExpiriesFirst: a renewal that waited while the TTL passed comes too late. Until then the service
// does nothing, and then it needs no request to remember what is due.
func TestResumeDealsWithExpiriesFirst(t *testing.T) {
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
				t.Errorf("a paused service has told a loss: %v", <-first.lost)
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
			wantResidue(t, s, "") // without renewal the waiter's lease has expired, too
		})
	}
}

// TestRestartDealsWithExpiries: of the time for which the service was paused.
func TestRestartDealsWithExpiries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		newSite(t, s).held(locker.Request{})
		s.Pause()
		time.Sleep(ttl)
		synctest.Wait()
		wantResidue(t, s, `"name" is held, and 0 wait`)
		s.Restart()
		wantResidue(t, s, "")
	})
}

func TestRestart(t *testing.T) {
	for _, paused := range []bool{false, true} {
		inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
			first := mustAcquire(t, a, "name")
			waiter := wait(t, b, "name")
			if paused {
				s.Pause()
			}
			s.Restart()
			wantResidue(t, s, `"name" is held, and 0 wait`)
			time.Sleep(2 * ttl)
			wantAlive(t, first)
			wantResidue(t, s, `"name" is held, and 1 wait`) // again
			if err := first.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
			second := (<-waiter).must(t)
			if second.Token() <= first.Token() {
				t.Errorf("token %d after %d", second.Token(), first.Token())
			}
		})
	}
}

func TestRestartFailsWhatIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, _ party) {
		s.Pause()
		start := time.Now()
		pending := wait(t, a, "name")
		s.Restart()
		if got := <-pending; got.err == nil || errors.Is(got.err, locker.ErrHeld) || time.Since(start) > 0 {
			t.Errorf("Acquire = %v after %v, want a failure of the service at once", got.err, time.Since(start))
		}
		synctest.Wait()
		wantResidue(t, s, "")
		mustAcquire(t, a, "name")
	})
}

// TestRestartBehindACut: nobody tells the client, which learns it with its next request after Heal.
func TestRestartBehindACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		one, two := newSite(t, s), newSite(t, s)
		first, _ := one.held(locker.Request{})
		second := two.queued(locker.Request{})
		one.Cut()
		two.Cut()
		s.Restart()
		one.Heal()
		two.Heal()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := second.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || len(second.lost) > 0 {
			t.Errorf("Acquire = %v, want to know of nothing yet", err)
		}
		if s.Expire("name"); len(first.lost) > 0 {
			t.Error("a push came through a connection that the service has forgotten")
		}
		if _, errs := two.renew(second.Lock); errs[0] == nil || errors.Is(errs[0], locker.ErrLost) {
			t.Errorf("first Renew = %v, want a failure that is not final", errs[0])
		}
		if _, err := second.Acquire(t.Context()); err == nil || len(second.lost) != 1 {
			t.Errorf("Acquire = %v, want the broken connection to be known", err)
		}
		if _, errs := two.renew(second.Lock); !errors.Is(errs[0], locker.ErrLost) {
			t.Errorf("second Renew = %v, want %v", errs[0], locker.ErrLost)
		}
	})
}

func TestWipe(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		first := mustAcquire(t, a, "name")
		waiter := wait(t, b, "name")
		s.Wipe()
		wantResidue(t, s, "")
		second := (<-waiter).must(t)
		if second.Token() <= first.Token() {
			t.Errorf("token %d after %d", second.Token(), first.Token())
		}
		time.Sleep(ttl / 2)
		wantOver(t, first, locker.ErrLost) // its renewal found nothing
		time.Sleep(2 * ttl)
		wantAlive(t, second)
	})
}

// TestCut: the holder knows that it has lost the lock before the rival gets it, and neither is confused by Heal.
func TestCut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		first := mustAcquire(t, a, "name")
		waiter := wait(t, b, "name")
		time.Sleep(ttl / 2)
		a.Cut()
		<-first.Done()
		lost := time.Now()
		second := <-waiter
		if early := second.at.Sub(lost); early <= 0 {
			t.Errorf("the rival was granted %v after the holder knew, want later", early)
		}
		wantOver(t, first, locker.ErrLost)
		a.Heal()
		time.Sleep(2 * ttl)
		wantAlive(t, second.must(t))
		if err := second.lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		wantResidue(t, s, "")
		mustAcquire(t, a, "name")
	})
}

func TestCutIsSurvivedBelowTheTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		first := mustAcquire(t, a, "name")
		waiter := wait(t, b, "name")
		for range 5 {
			a.Cut()
			b.Cut()
			time.Sleep(ttl / 2)
			a.Heal()
			b.Heal()
			time.Sleep(ttl / 2)
		}
		wantAlive(t, first)
		if err := first.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		(<-waiter).must(t)
	})
}

func TestDropReplies(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		a.DropReplies(1)
		before := s.Requests()
		if _, err := a.Acquire(t.Context(), "name"); err == nil || errors.Is(err, locker.ErrHeld) {
			t.Errorf("Acquire = %v, want a failure of the service", err)
		}
		synctest.Wait()
		if n := s.Requests() - before; n != 2 {
			t.Errorf("%d requests were carried out, want 2: the acquire and its removal", n)
		}
		wantResidue(t, s, "")

		lease := mustAcquire(t, b, "name")
		b.DropReplies(1)
		if err := lease.Release(t.Context()); err == nil || errors.Is(err, locker.ErrLost) {
			t.Errorf("Release = %v, want a failure of the service", err)
		}
		second := mustAcquire(t, a, "name") // the release was carried out
		time.Sleep(ttl)                     // and is repeated
		wantAlive(t, second)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("second Release = %v", err)
		}
		wantAlive(t, second)
	})
}

// TestDelayReorders: a request that is under way is overtaken when the delay ends.
func TestDelayReorders(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		a.Delay(ttl / 4)
		if _, err := a.Acquire(t.Context(), "name"); err == nil {
			t.Error("Acquire = nil, want a failure: the answer takes longer than a call may")
		}
		a.Delay(0)
		lease := mustAcquire(t, b, "name")
		time.Sleep(ttl)
		wantAlive(t, lease)
		wantResidue(t, s, `"name" is held, and 0 wait`)
	})
}

func TestDelayedRequestIsLostInACut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, _ party) {
		a.Delay(time.Second)
		pending := wait(t, a, "name")
		a.Cut()
		time.Sleep(time.Second * 3 / 2)
		a.Heal()
		if got := <-pending; got.err == nil {
			t.Error("Acquire = nil, want a failure")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		wantResidue(t, s, "")
		if n := s.Requests(); n != 1 {
			t.Errorf("%d requests were carried out, want 1: the removal", n)
		}
	})
}

// TestReplyIsLostInACut: of a request that had arrived before.
func TestReplyIsLostInACut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, _ party) {
		s.Pause()
		pending := wait(t, a, "name")
		a.Cut()
		s.Resume()
		wantResidue(t, s, `"name" is held, and 0 wait`)
		if got := <-pending; got.err == nil {
			t.Error("Acquire = nil, want a failure")
		}
		a.Heal()
		time.Sleep(ttl)
		wantResidue(t, s, "")
	})
}

func TestSever(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		first := mustAcquire(t, a, "name")
		waiter := wait(t, b, "name")
		a.Sever()
		b.Sever()
		wantResidue(t, s, `"name" is held, and 0 wait`)
		time.Sleep(2 * ttl)
		wantAlive(t, first)
		wantResidue(t, s, `"name" is held, and 1 wait`) // again
		if err := first.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		(<-waiter).must(t)
	})
}

func TestSeverFailsWhatIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, _ party) {
		a.Delay(time.Second)
		start := time.Now()
		pending := wait(t, a, "name")
		a.Sever()
		a.Delay(0)
		if got := <-pending; got.err == nil || errors.Is(got.err, locker.ErrHeld) || time.Since(start) > 0 {
			t.Errorf("Acquire = %v after %v, want a failure of the service at once", got.err, time.Since(start))
		}
		time.Sleep(time.Minute)
		wantResidue(t, s, "")
		if n := s.Requests(); n != 1 {
			t.Errorf("%d requests were carried out, want 1: the removal", n)
		}
		mustAcquire(t, a, "name")
	})
}

// TestRenewalKeepsNothingOfTheCaller: a renewal is carried out after its call is over, when the caller may use its
// slice for others.
func TestRenewalKeepsNothingOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		site := newSite(t, s)
		l, _ := site.held(locker.Request{})
		other := site.lock(locker.Request{Name: "other"})
		site.Delay(ttl / 2)
		locks := []driver.Lock{l.Lock}
		site.renew(locks...)
		locks[0] = other.Lock
		time.Sleep(ttl)
		synctest.Wait()
		wantResidue(t, s, `"name" is held, and 0 wait`) // since ttl/2
	})
}

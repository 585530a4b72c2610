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

// Faults of the network between a Locker and its service.

// TestRestartDuringACut: the client notices with its next request after Heal.
func TestRestartDuringACut(t *testing.T) {
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

// TestCut: the holder knows that it has lost the lock before the rival gets it, and neither is
// confused by Heal.
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

// A holder whose requests are lost loses its lock on the service. One whose replies are lost renews
// its lock there, without knowing it, until its deadline; then its release arrives, too.
func TestCutOneWay(t *testing.T) {
	for _, cut := range []struct {
		what string
		do   func(party)
	}{{"requests", func(p party) { p.CutRequests() }}, {"replies", func(p party) { p.CutReplies() }}} {
		t.Run(cut.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
				first := mustAcquire(t, a, "name")
				time.Sleep(ttl / 2)
				before := s.Requests()
				cut.do(a)
				<-first.Done()
				if got := s.Requests() > before; got != (cut.what == "replies") {
					t.Errorf("requests of the holder were executed: %v", got)
				}
				second := (<-wait(t, b, "name")).must(t)
				wantOver(t, first, locker.ErrLost)
				a.Heal()
				time.Sleep(2 * ttl)
				wantAlive(t, second)
			})
		})
	}
}

// A push arrives while only requests are lost.
func TestPushArrivesWhileRequestsAreLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, _ party) {
		lease := mustAcquire(t, a, "name")
		a.CutRequests()
		s.Expire("name")
		wantOver(t, lease, locker.ErrLost)
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

func TestDrop(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		a.Drop(1)
		before := s.Requests()
		if _, err := a.Acquire(t.Context(), "name"); err == nil || errors.Is(err, locker.ErrHeld) {
			t.Errorf("Acquire = %v, want a failure of the service", err)
		}
		synctest.Wait()
		if n := s.Requests() - before; n != 2 {
			t.Errorf("%d requests were executed, want 2: the acquire and its removal", n)
		}
		wantResidue(t, s, "")

		lease := mustAcquire(t, b, "name")
		b.Drop(1)
		if err := lease.Release(t.Context()); err == nil || errors.Is(err, locker.ErrLost) {
			t.Errorf("Release = %v, want a failure of the service", err)
		}
		second := mustAcquire(t, a, "name") // the release was executed
		time.Sleep(ttl)                     // and is repeated
		wantAlive(t, second)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("second Release = %v", err)
		}
		wantAlive(t, second)
	})
}

// TestReplyIsLostInACut: the reply to a request that had arrived before the cut.
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

func TestSeverFailsWhatIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, _ party) {
		a.Delay(time.Second, 0)
		start := time.Now()
		pending := wait(t, a, "name")
		a.Sever()
		a.Delay(0, 0)
		if got := <-pending; got.err == nil || errors.Is(got.err, locker.ErrHeld) || time.Since(start) > 0 {
			t.Errorf("Acquire = %v after %v, want a failure of the service at once", got.err, time.Since(start))
		}
		time.Sleep(time.Minute)
		wantResidue(t, s, "")
		if n := s.Requests(); n != 1 {
			t.Errorf("%d requests were executed, want 1: the removal", n)
		}
		mustAcquire(t, a, "name")
	})
}

// TestRenewalKeepsNothingOfTheCaller: a renewal is executed after its call is over, when the caller
// may use its slice for other locks.
func TestRenewalKeepsNothingOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		site := newSite(t, s)
		l, _ := site.held(locker.Request{})
		other := site.lock(locker.Request{Name: "other"})
		site.Delay(ttl/2, 0)
		locks := []driver.Lock{l.Lock}
		site.renew(locks...)
		locks[0] = other.Lock
		time.Sleep(ttl)
		synctest.Wait()
		wantResidue(t, s, `"name" is held, and 0 wait`) // since ttl/2
	})
}

// TestExpireIsHeardLate: a holder whose messages are lost hears of a loss no earlier than on a service
// that notifies nobody. docs/ci.md says so.
func TestExpireIsHeardLate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		lease := mustAcquire(t, a, "name")
		a.CutReplies()
		s.Expire("name")
		next := mustAcquire(t, b, "name")
		synctest.Wait()
		wantAlive(t, lease)
		a.Heal()
		time.Sleep(ttl / 2) // a renewal
		wantOver(t, lease, locker.ErrLost)
		wantAlive(t, next)
	})
}

// TestShortContext: on a network that takes time, a context of a millisecond isn't enough.
func TestShortContext(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *membackend.Server, a, _ party) {
		a.Delay(20*time.Millisecond, 20*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := a.Acquire(ctx, "name"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

package membackend_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/membackend"
)

// TestDelayReorders: a request under way is overtaken when the delay ends.
func TestDelayReorders(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		a.Delay(ttl/4, 0)
		if _, err := a.Acquire(t.Context(), "name"); err == nil {
			t.Error("Acquire = nil, want a failure: the answer takes longer than a call may")
		}
		a.Delay(0, 0)
		lease := mustAcquire(t, b, "name")
		time.Sleep(ttl)
		wantAlive(t, lease)
		wantResidue(t, s, `"name" is held, and 0 wait`)
	})
}

// TestDelayOfReplies: the request is executed at once, and its answer comes late. Heal ends the
// delay.
func TestDelayOfReplies(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, _ party) {
		const late = ttl / 50
		a.Delay(0, late)
		start := time.Now()
		pending := wait(t, a, "name")
		synctest.Wait()
		wantResidue(t, s, `"name" is held, and 0 wait`)
		if took := time.Since(start); took != 0 {
			t.Errorf("the request was executed after %v, want at once", took)
		}
		lease := (<-pending).must(t)
		if took := time.Since(start); took != late {
			t.Errorf("Acquire took %v, want %v", took, late)
		}
		if left := lease.Deadline().Sub(start); left > ttl {
			t.Errorf("Deadline is %v after the request was sent, want %v at most", left, ttl)
		}
		a.Heal()
		start = time.Now()
		if err := lease.Release(t.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("Release = %v after %v, want nil at once", err, time.Since(start))
		}
	})
}

func TestDelayedRequestIsLostInACut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, _ party) {
		a.Delay(time.Second, 0)
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
			t.Errorf("%d requests were executed, want 1: the removal", n)
		}
	})
}

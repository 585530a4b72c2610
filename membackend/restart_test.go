package membackend_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// TestRestartRemovesExpired: what expired while the service was paused.
func TestRestartRemovesExpired(t *testing.T) {
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

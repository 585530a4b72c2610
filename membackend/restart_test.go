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

// Connections break when the service restarts, and by themselves. The lock is held after that, and
// the waiter queues again.
func TestConnectionsBreak(t *testing.T) {
	for how, breaks := range map[string]func(s *membackend.Server, a, b party){
		"restart":       func(s *membackend.Server, _, _ party) { s.Restart() },
		"while paused":  func(s *membackend.Server, _, _ party) { s.Pause(); s.Restart() },
		"by themselves": func(_ *membackend.Server, a, b party) { a.Sever(); b.Sever() },
	} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
				first := mustAcquire(t, a, "name")
				waiter := wait(t, b, "name")
				breaks(s, a, b)
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

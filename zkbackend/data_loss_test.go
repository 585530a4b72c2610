package zkbackend_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

// Servers that have lost their data hang up on the session without a word.
func TestDataIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		const long = ttl + time.Second
		lease, taken, too := acquire(t, l, "a"), acquire(t, other, "b"), acquire(t, other, "f")
		several := acquire(t, l, "c", locker.WithTTL(long)) // a session of its own
		for range 100 {
			release(t, acquire(t, other, "d"))
		}
		waiting, second := wait(t, l, "b"), wait(t, l, "f", locker.WithTTL(long))
		s.nodesAre(t, "b", 2)
		s.nodesAre(t, "f", 2)

		s.wipe()
		ctx, cancel := context.WithTimeout(t.Context(), ttl/2)
		defer cancel()
		if _, err := l.Acquire(ctx, "e"); err == nil {
			t.Errorf("Acquire right after the loss = a lease, want an error")
		}
		lost(t, ttl, lease, "restored")
		lost(t, long, several, "restored")
		lost(t, ttl, taken, "deadline")
		lost(t, ttl, too, "deadline")
		eventually(t, "acquisitions work again", func() bool {
			lease, err := l.Acquire(t.Context(), "a")
			return err == nil && lease.Release(t.Context()) == nil
		})
		release(t, waiting.granted(t))
		release(t, second.granted(t))
		for _, each := range []locker.Locker{l, other} {
			release(t, acquire(t, each, "b"))
			if err := each.Close(); err != nil {
				t.Errorf("Close = %v, want nil", err)
			}
		}
	})
}

// With restored data, a node is back whose lock was released since. It goes when its session is
// ended, which the servers know.
func TestDataIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		lease := acquire(t, l, "a")
		s.mu.Lock()
		session, backup := s.last, s.tree.clone()
		s.mu.Unlock()
		release(t, lease)
		for range 100 {
			release(t, acquire(t, l, "b"))
		}
		s.mu.Lock()
		s.tree = backup
		s.mu.Unlock()
		s.sever()
		s.nodesAre(t, "a", 1)
		w := wait(t, open(t, s), "a")
		s.nodesAre(t, "a", 2)
		w.pending(t)
		release(t, w.granted(t))
		if s.knows(session) {
			t.Errorf("the lock was granted, and the earlier session has not ended")
		}
		release(t, acquire(t, l, "b"))
	})
}

// All data is lost while nobody holds anything, and for longer than the session.
func TestDataIsLostWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		for range 10 {
			release(t, acquire(t, l, "a"))
		}
		s.wipe()
		time.Sleep(time.Minute)
		release(t, acquire(t, l, "a"))
	})
}

package zkbackend_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/zkbackend"
)

// Each waiter watches the one before it, so one wakes up when any other one leaves.
func TestOneWakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		holder, waiters := queue(t, s, "a", 6)
		lists := func() (n int) {
			for _, op := range s.asked() {
				if op == "children" {
					n++
				}
			}
			return n
		}
		eventually(t, "all wait", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			watched := 0
			for c := range s.conns {
				for name := range c.watches {
					z := s.tree.nodes[name]
					if z != nil && z.owner != c.session {
						watched++
					}
				}
			}
			return watched == len(waiters)
		})
		lists()
		waiters[2].cancel()
		<-waiters[2].done
		s.nodesAre(t, "a", 6)
		eventually(t, "the next one looks", func() bool { return lists() == 1 })
		release(t, holder)
		lease := waiters[0].granted(t)
		if n := lists(); n != 0 {
			t.Errorf("a hand-off to the first in the queue cost %d lists, want none", n)
		}
		release(t, lease)
		lease = waiters[1].granted(t)
		if n := lists(); n != 1 {
			t.Errorf("a hand-off to the second in the queue cost %d lists, want 1: it can't know that the first was served", n)
		}
		waiters[3].pending(t)
		release(t, lease)
		release(t, waiters[3].granted(t))
	})
}

// A server that was left knows of no watches. They are set again on the next one, each by itself.
func TestWatchesAfterAConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		holder, waiters := queue(t, s, "a", 1)
		watched := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			own, others := 0, 0
			for c := range s.conns {
				for name := range c.watches {
					if z := s.tree.nodes[name]; z != nil && z.owner == c.session {
						own++
					} else {
						others++
					}
				}
			}
			return own == 2 && others == 1
		}
		eventually(t, "both nodes and the place before are watched", watched)
		for range 3 {
			s.sever()
			eventually(t, "they are watched again", watched)
		}
		for _, op := range s.asked() {
			if op == "watches" {
				t.Errorf("go-zookeeper has set watches again: that is a race")
			}
		}
		waiters[0].pending(t)
		release(t, holder)
		lease := waiters[0].granted(t)
		s.mu.Lock()
		s.remove("/locker/a/" + s.tree.nodes["/locker/a"].children[0])
		s.mu.Unlock()
		lost(t, ttl/4, lease, "deleted")
	})
}

// Should a watch be lost all the same, a waiter finds out.
func TestWatchThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zkbackend.RecheckAfter(t, 100*time.Millisecond)
		s := newServer(t)
		holder, waiters := queue(t, s, "a", 1)
		eventually(t, "it waits", func() bool { return strings.Contains(fmt.Sprint(s.asked()), "get") })
		s.mu.Lock()
		for c := range s.conns {
			clear(c.watches)
		}
		s.mu.Unlock()
		waiters[0].pending(t)
		release(t, holder)
		release(t, waiters[0].granted(t))
	})
}

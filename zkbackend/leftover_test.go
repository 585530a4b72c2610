package zkbackend_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// forget makes the servers say that a session has ended, while its nodes exist, as may happen after
// an odd failover.
func (s *server) forget(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
}

// A node that an acquisition has left under a session that was said to have ended isn't the one
// that it has now.
func TestNodeOfAnEarlierSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		release(t, acquire(t, l, "a"))
		const session = 3 // l's; two were probes
		multis := 0
		s.scripts(func(r request) verdict {
			if r.op != "multi" {
				return serve
			}
			switch multis++; multis {
			case 1:
				return loseReply
			case 2: // somebody queues before it asks again
				s.tree.zxid++
				_, _ = s.tree.create("/locker/a/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-", 3, 99)
			}
			return serve
		})
		w := wait(t, l, "a")
		s.nodesAre(t, "a", 1)
		s.forget(session)
		s.sever()
		s.nodesAre(t, "a", 3)
		time.Sleep(time.Second) // longer than it takes to look at the queue
		w.pending(t)
		nodes := s.children("a")
		if nodes[0][:32] == nodes[2][:32] {
			t.Errorf("nodes of two sessions have the same owner")
		}
		s.mu.Lock()
		s.remove("/locker/a/" + nodes[0])
		s.remove("/locker/a/" + nodes[1])
		s.mu.Unlock()
		lease := w.granted(t)
		release(t, lease)
		s.nodesAre(t, "a", 0)
		release(t, acquire(t, other, "a"))
	})
}

// A waiter's node is known by its name, and not by whose it seems to be. Another one of the same
// owner is in the way, and deleted.
func TestWaiterKnowsItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		release(t, acquire(t, other, "a")) // number 0
		holder := acquire(t, other, "a")
		made := ""
		s.scripts(func(r request) verdict { // one of the same owner, before its own
			if r.op == "children" && made == "" {
				if z := s.tree.nodes["/locker/a"]; len(z.children) == 2 {
					owner := z.children[1][:32]
					s.tree.zxid++
					made, _ = s.tree.create("/locker/a/"+owner+"-0000000000", 0, 99)
				}
			}
			return serve
		})
		w := wait(t, l, "a")
		eventually(t, "the other node was made", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return made != "" })
		s.nodesAre(t, "a", 2)
		time.Sleep(time.Second) // longer than it takes to look at the queue
		w.pending(t)
		if nodes := s.children("a"); "/locker/a/"+nodes[1] == made {
			t.Errorf("the waiter has deleted its own node, and kept the other")
		}
		release(t, holder)
		release(t, w.granted(t))
		s.nodesAre(t, "a", 0)
	})
}

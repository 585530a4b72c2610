package zkbackend_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// forget makes the servers say that a session has ended, while its nodes exist, as may happen after
// an odd failover.
func (s *server) forget(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
}

// A node that an acquisition has left under a session that was said to have ended isn't the one
// that it has now. It is deleted, because it would keep its own acquisition waiting.
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
		first := s.children("a")[0]
		s.forget(session)
		s.sever()
		eventually(t, "it queues again", func() bool {
			nodes := s.children("a")
			return len(nodes) == 2 && !slices.Contains(nodes, first)
		})
		time.Sleep(time.Second) // longer than it takes to look at the queue
		w.pending(t)
		s.mu.Lock()
		s.remove("/locker/a/" + s.tree.nodes["/locker/a"].children[0])
		s.mu.Unlock()
		release(t, w.granted(t))
		s.nodesAre(t, "a", 0)
		release(t, acquire(t, other, "a"))
	})
}

// A server says that a session has ended before its nodes are removed, and they may never be. The
// holder's node is removed on the next session then.
func TestNodeThatOutlastsItsSession(t *testing.T) {
	for what, meanwhile := range map[string]func(*server, int64){
		"known before the release": func(s *server, session int64) { s.forget(session); s.sever() },
		"found by the release":     func(s *server, session int64) { s.forget(session) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl), zkbackend.WithDialer(s.dial))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = d.Close(context.Background()) }()
				l, err := d.Lock(locker.Request{Name: "a", TTL: ttl}, func(error) {})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := l.Acquire(t.Context()); err != nil {
					t.Fatal(err)
				}
				meanwhile(s, s.lastSession())
				synctest.Wait()
				if n := len(s.children("a")); n != 1 {
					t.Fatalf("%d nodes before Release, want the one of the session that has ended", n)
				}
				s.asked()
				if err := l.Release(t.Context()); err != nil || len(s.children("a")) != 0 {
					t.Errorf("Release = %v, and %d nodes exist, want nil and none", err, len(s.children("a")))
				}
				if what == "known before the release" {
					s.wasAsked(t, "Release", "multi", "children", "delete")
				}
				s.asked()
				if err := l.Release(t.Context()); err != nil {
					t.Errorf("Release again = %v, want nil", err)
				}
				s.wasAsked(t, "Release, where nothing can exist,")
			})
		})
	}
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

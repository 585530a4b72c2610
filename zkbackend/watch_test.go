package zkbackend_test

import (
	"fmt"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/zkbackend"
)

// writeTo has somebody write to a node of a lock, which uses up the watches that are on it.
func (s *server) writeTo(name string, i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := "/locker/" + name + "/" + s.tree.nodes["/locker/"+name].children[i]
	s.tree.set(node, -1)
	s.tellChanged(node)
}

// tellChanged is called with mu held.
func (s *server) tellChanged(node string) {
	for c := range s.conns {
		if c.watches[node] {
			delete(c.watches, node)
			s.tell(c, dataChanged, node)
		}
	}
}

// watchers counts the watches that are set on a node of a lock.
func (s *server) watchers(name string, i int) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := "/locker/" + name + "/" + s.tree.nodes["/locker/"+name].children[i]
	for c := range s.conns {
		if c.watches[node] {
			n++
		}
	}
	return n
}

// A node that somebody writes to is watched again, by the waiter and by its owner.
func TestNodeThatIsWrittenTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		holder, waiters := queue(t, s, "a", 1)
		watched := func() bool { return s.watchers("a", 0) == 2 && s.watchers("a", 1) == 1 }
		for range 3 {
			eventually(t, "the node is watched by both", watched)
			s.writeTo("a", 0)
			s.writeTo("a", 1)
			waiters[0].pending(t)
		}
		eventually(t, "the node is watched by both", watched)
		release(t, holder)
		lease := waiters[0].granted(t)
		s.writeTo("a", 0)
		eventually(t, "the node is watched by its holder", func() bool { return s.watchers("a", 0) == 1 })
		began := time.Now()
		s.mu.Lock()
		s.remove("/locker/a/" + s.tree.nodes["/locker/a"].children[0])
		s.mu.Unlock()
		lost(t, ttl/4, lease, "deleted")
		if took := time.Since(began); took != 0 {
			t.Errorf("the holder learned it after %v", took)
		}
	})
}

// mark has an operator take a lock away, whose node is the first.
func (s *server) mark(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := "/locker/" + name + "/" + s.tree.nodes["/locker/"+name].children[0]
	s.tree.set(node, -1)
	s.tree.nodes[node].data = kit.Marked(locker.Breach{By: "bob"}, "")
	s.tellChanged(node)
}

// A mark is read when the node's watch says so, and not at the next heartbeat. A lease that is younger
// than a heartbeat has no watch. Its mark is read within a second as well, at a long tick, too.
func TestMarkIsReadAtOnce(t *testing.T) {
	for _, tick := range []time.Duration{tick, 2 * time.Second, 6 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			l := open(t, s, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(max(ttl, 3*tick)))
			lease := acquire(t, l, "young")
			s.mark("young")
			lost(t, 900*time.Millisecond, lease, "bob")

			for _, after := range []string{"heartbeat", "connect"} {
				lease = acquire(t, l, after)
				eventually(t, "the node is watched", func() bool { return s.watchers(after, 0) == 1 })
				if after == "connect" {
					s.sever()
					time.Sleep(tick / 100)
				}
				began := time.Now()
				s.mark(after)
				lost(t, time.Second, lease, "bob")
				if took := time.Since(began); took != 0 {
					t.Errorf("a tick of %v, after a %s: the holder learned it after %v, want that it is told", tick, after, took)
				}
			}
		})
	}
}

// After a connect many nodes are read at the same time. A mark doesn't wait until all of them are.
func TestManyNodesAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			tick   = 10 * time.Second
			way    = 50 * time.Millisecond // to the client; the other way takes no time
			most   = 64                    // requests at the same time
			leases = 10 * most
		)
		s := newServer(t)
		s.way = way
		l := open(t, s, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(max(ttl, 3*tick)))
		held := make(map[string]locker.Lease)
		for i := range leases {
			name := fmt.Sprint(i)
			held[name] = acquire(t, l, name)
		}
		time.Sleep(2 * time.Second)
		s.sever()
		reads := make(map[time.Time]int)
		var last time.Time
		first := make(chan string, 1)
		s.scripts(func(r request) verdict {
			if r.own {
				if last.IsZero() {
					first <- path.Base(path.Dir(r.path))
				}
				last = time.Now()
				reads[last]++
			}
			return serve
		})
		name := <-first
		time.Sleep(way)
		began := time.Now()
		s.mark(name)
		lost(t, time.Second, held[name], "bob")
		if took := time.Since(began); took > 3*way {
			t.Errorf("the holder learned of the mark after %v, want the event's way and at most two rounds of requests, %v", took, 3*way)
		}
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		for at, n := range reads {
			if n > most {
				t.Errorf("%d reads are sent at %v, want %d at most", n, at, most)
			}
		}
		if took := last.Sub(began); took > (leases/most+2)*way {
			t.Errorf("the last node was read %v after the first, want one round of requests for %d nodes", took, most)
		}
	})
}

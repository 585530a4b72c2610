package zkbackend_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// writeTo has somebody write to a node of a lock, which uses up the watches that are on it.
func (s *server) writeTo(name string, i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := "/locker/" + name + "/" + s.tree.nodes["/locker/"+name].children[i]
	s.tree.set(node, -1)
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

package zkbackend_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

// A request of an acquisition without waiting may be executed when its session is over here, and when
// what it may have left was looked for. Its node is nobody else's.
func TestOwnLateNodeIsNoHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		release(t, acquire(t, open(t, s), "a"))
		d, cut := cuttable(t, s)
		session, executed := s.lastSession(), false
		s.scripts(func(r request) verdict {
			switch {
			case r.session == session && r.op == "multi":
				cut.Store(true)
				return delay
			case r.session > session && r.op == "exists" && r.path == "/locker/a" && !executed:
				executed = s.delayed[0]()
			}
			return serve
		})
		time.AfterFunc(ttl*7/4, func() { cut.Store(false) }) // when the session is over
		l, err := d.Lock(locker.Request{Name: "a", TTL: ttl, NoWait: true}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		grant, err := l.Acquire(t.Context())
		if err != nil || !executed {
			t.Errorf("Acquire = %v, and the late request was executed: %v; want a grant, and true", err, executed)
		}
		nodes := s.children("a")
		if len(nodes) != 1 || s.ownerOf("/locker/a/"+nodes[0]) == session || grant.Token != s.czxidOf("/locker/a/"+nodes[0]) {
			t.Errorf("the nodes are %q with a token of %v, want one, of the second session", nodes, grant.Token)
		}
		if err := l.Release(t.Context()); err != nil || len(s.children("a")) != 0 {
			t.Errorf("Release = %v, and %d nodes exist; want nil and none", err, len(s.children("a")))
		}
	})
}

// czxidOf is the transaction that has created a node.
func (s *server) czxidOf(path string) locker.Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	if z := s.tree.nodes[path]; z != nil {
		return locker.Token(z.czxid)
	}
	return 0
}

package zkbackend_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

// A request to create the lock's node is on its way when its session is over. Another session makes that
// node, and has the lease. When the lease is released, the servers remove the lock's node, which is empty,
// and then the request arrives. What it makes never has a child, so the servers would keep it.
func TestLockNodeThatIsMadeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		d, cut := cuttable(t, s)
		first := s.lastSession()
		s.scripts(func(r request) verdict {
			if r.session == first && r.op == "container" {
				cut.Store(true)
				time.AfterFunc(2*ttl, func() { cut.Store(false) }) // the session is over here, and Acquire goes on
				return delay
			}
			return serve
		})
		l, err := d.Lock(locker.Request{Name: "a", TTL: ttl}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context()); err != nil || !s.knows(first) || s.lastSession() == first {
			t.Fatalf("Acquire = %v, want a grant on another session, while the servers know the first one", err)
		}
		removed, made := false, false
		s.scripts(func(r request) verdict {
			if removed && !made {
				s.remove("/locker/a")
				made = s.delayed[0]()
			}
			removed = removed || r.op == "delete"
			return serve
		})
		err = l.Release(t.Context())
		s.mu.Lock()
		defer s.mu.Unlock()
		if z := s.tree.nodes["/locker/a"]; err != nil || !made || z != nil {
			t.Errorf("Release = %v, the request was executed: %v, and the lock's node is %v; want nil, true, and none", err, made, z)
		}
	})
}

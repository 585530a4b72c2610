package zkbackend_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// A request to create the lock's node is on its way when its session is over. Another session makes that
// node, and has the lease. When the lease is released, the servers remove the lock's node, which is empty,
// and then the request arrives. What it makes never has a child, so the servers would keep it.
func TestLockNodeThatIsMadeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		var cut atomic.Bool
		d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl),
			zkbackend.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				if cut.Load() {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return s.dial(ctx, network, addr)
			}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close(context.Background()) })
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

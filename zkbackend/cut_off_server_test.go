package zkbackend_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// What a server says that is cut off from the quorum. It answers reads and acknowledges sync, as a
// leader does that hasn't noticed yet, from what it knew; writes it leaves without an answer.

// A node whose answer was lost is not taken for gone on the word of such a server.
func TestReleaseOverAServerThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl), zkbackend.WithDialer(s.dial))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close(context.Background()) }()
		lock := func() (acquire, release func(context.Context) error) {
			l, err := d.Lock(locker.Request{Name: "a", TTL: ttl}, func(error) {})
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error { _, err := l.Acquire(ctx); return err }, l.Release
		}
		acquire, release := lock()
		if err := errors.Join(acquire(t.Context()), release(t.Context())); err != nil { // now the lock's node is there
			t.Fatal(err)
		}

		acquire, release = lock()
		s.cutOff()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := acquire(ctx); err == nil {
			t.Fatal("Acquire = nil, want an error: its answer was lost")
		}
		if n := len(s.children("a")); n != 1 {
			t.Fatalf("%d nodes exist before Release, want the one whose answer was lost", n)
		}
		if err := release(t.Context()); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
		if n := len(s.children("a")); n != 0 {
			t.Errorf("Release = nil, and %d nodes exist, want none", n)
		}
	})
}

// Nor does an acquisition make a second node because such a server doesn't know the first: it would
// wait for itself. The request that makes it goes out on the next connection, when the one to that
// server has ended meanwhile.
func TestAcquireOverAServerThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		release(t, acquire(t, l, "a"))
		s.parting = true
		s.cutOff()
		lease := acquire(t, l, "a")
		s.nodesAre(t, "a", 1)
		release(t, lease)
	})
}

// Nor is a lock held because such a server still knows a holder that has released it.
func TestTryAcquireOverAServerThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		lease := acquire(t, other, "a")
		s.mu.Lock()
		s.stale = s.tree.clone()
		s.mu.Unlock()
		release(t, lease)
		s.once("exists", hangUp) // the connection with a server that isn't
		lease, err := locker.TryAcquire(t.Context(), l, "a")
		if err != nil {
			t.Fatalf("TryAcquire of a lock that was released = %v, want a lease", err)
		}
		release(t, lease)
	})
}

// cutOff has the next multi executed, and its answer lost. The next connection after that is with a
// server which was cut off before it; those that follow are not.
func (s *server) cutOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.tree.clone()
	done := false
	s.script = func(r request) verdict {
		if r.op != "multi" || done {
			return serve
		}
		done = true
		s.stale = before
		return loseReply
	}
}

// clone copies what is read.
func (t *tree) clone() *tree {
	c := &tree{zxid: t.zxid, nodes: make(map[string]*znode, len(t.nodes))}
	for name, z := range t.nodes {
		twin := *z
		twin.children = slices.Clone(z.children)
		c.nodes[name] = &twin
	}
	return c
}

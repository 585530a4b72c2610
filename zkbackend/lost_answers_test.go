package zkbackend_test

import (
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
)

// An answer that got lost must not cost anything but time: a node that was made is found, one that
// wasn't is made.
func TestLostAnswers(t *testing.T) {
	for _, c := range []struct {
		what    string
		verdict verdict
		op      string
		opts    []locker.Option
	}{
		{"not executed", hangUp, "multi", nil},
		{"executed", hangUpAfter, "multi", nil},
		{"executed, and silence", loseReply, "multi", nil},
		{"silence", ignore, "multi", nil},
		{"not executed, without waiting", hangUp, "multi", []locker.Option{locker.NoWait()}},
		{"executed, without waiting", hangUpAfter, "multi", []locker.Option{locker.NoWait()}},
		{"counting", hangUp, "exists", []locker.Option{locker.NoWait()}},
		{"a container that was not made", hangUp, "container", nil},
		{"a container that was made", hangUpAfter, "container", nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				l := open(t, s)
				switch c.op {
				case "multi":
					useOften(t, l, "a")
				case "exists": // a Locker that had the lock itself knows what this asks for
					release(t, acquire(t, open(t, s), "a"))
				}
				done := false
				s.scripts(func(r request) verdict {
					if !done && r.op == c.op && r.path != "/" {
						done = true
						return c.verdict
					}
					return serve
				})
				lease := acquire(t, l, "a", c.opts...)
				if !done {
					t.Fatalf("nothing was disturbed")
				}
				if n := len(s.children("a")); n != 1 {
					t.Fatalf("%d nodes, want 1", n)
				}
				s.mu.Lock()
				z := s.tree.nodes["/locker/a/"+s.tree.nodes["/locker/a"].children[0]]
				s.mu.Unlock()
				if lease.Token() != locker.Token(z.czxid) {
					t.Errorf("token %v, and the node's czxid is %v", lease.Token(), z.czxid)
				}
				release(t, lease)
				if n := len(s.children("a")); n != 0 {
					t.Errorf("after Release %d nodes, want none", n)
				}
			})
		})
	}
}

// An answer that got lost leaves a doubt: whatever has this owner is removed, though one node is
// known.
func TestReleaseInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		release(t, acquire(t, l, "a"))
		s.once("multi", hangUp)
		lease := acquire(t, l, "a")
		s.mu.Lock()
		owner := s.tree.nodes["/locker/a"].children[0][:32]
		_, _ = s.tree.create("/locker/a/"+owner+"-", 3, s.last) // the first request was executed late, as no server should
		s.mu.Unlock()
		release(t, lease)
		if n := len(s.children("a")); n != 0 {
			t.Errorf("after Release %d nodes, want none", n)
		}
	})
}

func TestReleaseWhoseAnswerGotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, v := range []verdict{hangUp, hangUpAfter, loseReply, ignore} {
			s := newServer(t)
			l := open(t, s)
			lease := acquire(t, l, "a")
			s.once("delete", v)
			release(t, lease)
			if n := len(s.children("a")); n != 0 {
				t.Errorf("after Release %d nodes, want none", n)
			}
			release(t, acquire(t, l, "a"))
		}
	})
}

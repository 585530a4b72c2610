package zkbackend_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// What the operations cost, in requests.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		lease := acquire(t, l, "a")
		s.wasAsked(t, "the first acquisition of a name", "multi", "container", "multi")
		release(t, lease)
		s.wasAsked(t, "Release", "delete")
		lease = acquire(t, l, "a")
		s.wasAsked(t, "Acquire", "multi")
		if _, err := locker.TryAcquire(t.Context(), other, "a"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld", err)
		}
		s.wasAsked(t, "TryAcquire of a held lock", "exists", "multi", "children")
		w := wait(t, other, "a")
		eventually(t, "the watch", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, r := range s.requests {
				if r.op == "get" && !r.own {
					return true
				}
			}
			return false
		})
		release(t, lease)
		lease = w.granted(t)
		s.wasAsked(t, "a hand-off", "multi", "children", "get", "delete")
		release(t, lease)
		useOften(t, l, "a")
		useOften(t, other, "a")
		s.asked()
		lease, err := locker.TryAcquire(t.Context(), other, "a")
		if err != nil {
			t.Fatalf("TryAcquire = %v, want a lease", err)
		}
		s.wasAsked(t, "TryAcquire of a lock that this Locker had last", "multi")
		release(t, lease)
		s.asked()
		if lease, err = locker.TryAcquire(t.Context(), l, "a"); err != nil {
			t.Fatalf("TryAcquire = %v, want a lease", err)
		}
		s.wasAsked(t, "TryAcquire of a lock that another Locker had since", "multi", "children", "multi")
		if _, err := locker.TryAcquire(t.Context(), other, "a"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld", err)
		}
		s.wasAsked(t, "TryAcquire of a lock that another Locker has taken since", "multi", "children")
		release(t, lease)
		s.asked()
		time.Sleep(time.Minute)
		if lease, err = locker.TryAcquire(t.Context(), l, "a"); err != nil {
			t.Fatalf("TryAcquire = %v, want a lease", err)
		}
		s.wasAsked(t, "TryAcquire of a lock that nobody had for a while", "exists", "multi")
		release(t, lease)
		third := open(t, s)
		lease = acquire(t, other, "a")
		s.asked()
		s.scripts(func(r request) verdict { // the holder goes between the first request and the second
			if r.op == "multi" && len(s.tree.nodes["/locker/a"].children) > 0 {
				s.remove("/locker/a/" + s.tree.nodes["/locker/a"].children[0])
				s.script = nil
			}
			return serve
		})
		second, err := locker.TryAcquire(t.Context(), third, "a")
		if err != nil {
			t.Fatalf("TryAcquire = %v, want a lease", err)
		}
		s.wasAsked(t, "TryAcquire over a server that still knew the holder", "exists", "multi", "children", "multi")
		release(t, second)
		_ = lease.Release(t.Context()) // it was lost
	})
}

func TestRequestsWithAForeignNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		release(t, acquire(t, l, "a"))
		s.mu.Lock()
		_, _ = s.tree.create("/locker/a/foreign", 0, 0)
		s.mu.Unlock()
		s.asked()
		lease, err := locker.TryAcquire(t.Context(), l, "a")
		if err != nil {
			t.Fatalf("TryAcquire = %v, want a lease", err)
		}
		s.wasAsked(t, "TryAcquire next to a node of another kind", "exists", "multi", "children", "multi", "multi", "children", "exists")
		release(t, lease)
	})
}

func TestTokensAreCzxids(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		var last locker.Token
		for range 5 {
			lease := acquire(t, l, "a")
			s.mu.Lock()
			z := s.tree.nodes["/locker/a/"+s.tree.nodes["/locker/a"].children[0]]
			s.mu.Unlock()
			if lease.Token() != locker.Token(z.czxid) || lease.Token() <= last {
				t.Errorf("token %v after %v, and the node's czxid is %v", lease.Token(), last, z.czxid)
			}
			last = lease.Token()
			release(t, lease)
			s.mu.Lock()
			s.tree.remove("/locker/a") // as the servers remove containers: sequence numbers start from 0 again
			s.mu.Unlock()
		}
	})
}

func TestRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		release(t, acquire(t, l, "a"))
		s.scripts(func(r request) verdict {
			if r.op == "multi" {
				return refuse
			}
			return serve
		})
		s.asked()
		_, err := l.Acquire(t.Context(), "a")
		if !contains(err, "not authenticated") || !contains(err, "permission") || errors.Is(err, locker.ErrHeld) {
			t.Errorf("Acquire = %v, want ZooKeeper's error", err)
		}
		if got := strings.Join(s.asked(), " "); got != "multi" {
			t.Errorf("it was asked for %q, want one request: what was refused needs no clean-up", got)
		}
		s.scripts(nil)
		release(t, acquire(t, l, "a"))
	})
}

// The servers remove a container when it has been empty for a while, but not one that was never
// used.
func TestContainerThatWasNeverUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		multis := 0
		refused := func(r request) verdict {
			if r.op == "multi" {
				if multis++; multis == 2 {
					return refuse
				}
			}
			return serve
		}
		s.scripts(refused)
		if _, err := l.Acquire(t.Context(), "a"); !contains(err, "permission") {
			t.Fatalf("Acquire = %v, want ZooKeeper's error", err)
		}
		there := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.tree.nodes["/locker/a"] != nil
		}
		eventually(t, "it is removed", func() bool { return !there() })

		// It stays where somebody has come to use it.
		multis = 0
		s.scripts(func(r request) verdict {
			if multis == 1 && r.op == "multi" {
				s.tree.zxid++
				_, _ = s.tree.create("/locker/a/"+strings.Repeat("e", 32)+"-", 3, 99)
			}
			return refused(r)
		})
		s.asked()
		if _, err := l.Acquire(t.Context(), "a"); !contains(err, "permission") {
			t.Fatalf("Acquire = %v, want ZooKeeper's error", err)
		}
		synctest.Wait()
		s.wasAsked(t, "Acquire", "multi", "container", "multi", "delete")
		s.nodesAre(t, "a", 1)
	})
}

// The servers remove a container that is empty; that may be just before it is used.
func TestReapedContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		for _, opts := range [][]locker.Option{nil, {locker.NoWait()}} {
			reaped := 0
			s.scripts(func(r request) verdict {
				if r.op == "multi" && reaped < 3 {
					reaped++
					s.tree.remove("/locker/a")
				}
				return serve
			})
			release(t, acquire(t, l, "a", opts...))
			if reaped != 3 {
				t.Errorf("it was removed %d times", reaped)
			}
			reaped = 0
			s.scripts(func(r request) verdict { // with all that is above
				if r.op == "multi" && reaped < 1 {
					reaped++
					s.tree.remove("/locker/a")
					s.tree.remove("/locker")
				}
				return serve
			})
			release(t, acquire(t, l, "a", opts...))
		}
	})
}

// An attempt without waiting creates no node while anybody is there, and none when another client
// comes in between.
func TestNoWaitDoesNotQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		release(t, acquire(t, other, "a"))
		var intruder string
		s.scripts(func(r request) verdict {
			if r.op == "multi" && intruder == "" {
				s.tree.zxid++
				intruder, _ = s.tree.create("/locker/a/"+strings.Repeat("e", 32)+"-", 3, 99)
				s.tree.set("/locker/a", -1)
			}
			return serve
		})
		if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld: somebody came in between", err)
		}
		if n := len(s.children("a")); n != 1 {
			t.Errorf("%d nodes, want the other's alone", n)
		}
		s.asked()
		if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld", err)
		}
		s.wasAsked(t, "TryAcquire", "exists", "multi", "children")

		// A lock's node that was removed and made again may have the same version and somebody in
		// it.
		s.mu.Lock()
		s.remove(intruder)
		s.mu.Unlock()
		again := false
		s.scripts(func(r request) verdict {
			if r.op == "multi" && !again {
				again = true
				s.tree.zxid++
				intruder, _ = s.tree.create("/locker/a/"+strings.Repeat("e", 32)+"-", 3, 99)
			}
			return serve
		})
		if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld: the node that it made is the second", err)
		}
		s.nodesAre(t, "a", 1)
	})
}

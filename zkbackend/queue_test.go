package zkbackend_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/zkbackend"
)

// queue lets some Lockers queue after a holder, one after the other.
func queue(t *testing.T, s *server, name string, n int) (holder locker.Lease, waiters []*waiter) {
	t.Helper()
	holder = acquire(t, open(t, s), name)
	for i := range n {
		waiters = append(waiters, wait(t, open(t, s), name))
		s.nodesAre(t, name, i+2)
	}
	return holder, waiters
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		lease, waiters := queue(t, s, "a", 5)
		for i, w := range waiters {
			release(t, lease)
			before := lease.Token()
			lease = w.granted(t)
			if lease.Token() <= before {
				t.Errorf("token %v after %v", lease.Token(), before)
			}
			for _, later := range waiters[i+1:] {
				later.pending(t)
			}
		}
		release(t, lease)
	})
}

// Each waiter watches the one before it, so one wakes up when any other one leaves.
func TestOneWakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		holder, waiters := queue(t, s, "a", 6)
		lists := func() (n int) {
			for _, op := range s.asked() {
				if op == "children" {
					n++
				}
			}
			return n
		}
		eventually(t, "all wait", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			watched := 0
			for c := range s.conns {
				for name := range c.watches {
					z := s.tree.nodes[name]
					if z != nil && z.owner != c.session {
						watched++
					}
				}
			}
			return watched == len(waiters)
		})
		lists()
		waiters[2].cancel()
		<-waiters[2].done
		s.nodesAre(t, "a", 6)
		eventually(t, "the next one looks", func() bool { return lists() == 1 })
		release(t, holder)
		lease := waiters[0].granted(t)
		if n := lists(); n != 0 {
			t.Errorf("a hand-off to the first in the queue cost %d lists, want none", n)
		}
		release(t, lease)
		lease = waiters[1].granted(t)
		if n := lists(); n != 1 {
			t.Errorf("a hand-off to the second in the queue cost %d lists, want 1: it can't know that the first was served", n)
		}
		waiters[3].pending(t)
		release(t, lease)
		release(t, waiters[3].granted(t))
	})
}

// A server that was left knows of no watches. They are set again on the next one, each by itself.
func TestWatchesAfterAConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		holder, waiters := queue(t, s, "a", 1)
		watched := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			own, others := 0, 0
			for c := range s.conns {
				for name := range c.watches {
					if z := s.tree.nodes[name]; z != nil && z.owner == c.session {
						own++
					} else {
						others++
					}
				}
			}
			return own == 2 && others == 1
		}
		eventually(t, "both nodes and the place before are watched", watched)
		for range 3 {
			s.sever()
			eventually(t, "they are watched again", watched)
		}
		for _, op := range s.asked() {
			if op == "watches" {
				t.Errorf("go-zookeeper has set watches again: that is a race")
			}
		}
		waiters[0].pending(t)
		release(t, holder)
		lease := waiters[0].granted(t)
		s.mu.Lock()
		s.remove("/locker/a/" + s.tree.nodes["/locker/a"].children[0])
		s.mu.Unlock()
		lost(t, ttl/4, lease, "deleted")
	})
}

// Should a watch be lost all the same, a waiter finds out.
func TestWatchThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zkbackend.RecheckAfter(t, 100*time.Millisecond)
		s := newServer(t)
		holder, waiters := queue(t, s, "a", 1)
		eventually(t, "it waits", func() bool { return strings.Contains(fmt.Sprint(s.asked()), "get") })
		s.mu.Lock()
		for c := range s.conns {
			clear(c.watches)
		}
		s.mu.Unlock()
		waiters[0].pending(t)
		release(t, holder)
		release(t, waiters[0].granted(t))
	})
}

// Watches that nobody needs any more must not pile up, neither here nor on the server.
func TestWaitersThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		holder := acquire(t, open(t, s), "a")
		other := open(t, s)
		gets := 0
		for range 20 {
			w := wait(t, other, "a")
			s.nodesAre(t, "a", 2)
			eventually(t, "it looks at the queue", func() bool { return strings.Contains(fmt.Sprint(s.asked()), "children") })
			w.cancel()
			<-w.done
			s.nodesAre(t, "a", 1)
		}
		for _, op := range s.asked() {
			if op == "get" {
				gets++
			}
		}
		if gets > 3 {
			t.Errorf("%d watches were set on one node by one session", gets)
		}
		w := wait(t, other, "a")
		s.nodesAre(t, "a", 2)
		release(t, holder)
		release(t, w.granted(t))
	})
}

// A wait goes on over a lost connection, with its place.
func TestWaitOverALostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		holder, waiters := queue(t, s, "a", 1)
		before := s.children("a")
		for range 3 {
			s.sever()
			eventually(t, "connected again", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.conns) == 2
			})
		}
		release(t, holder)
		lease := waiters[0].granted(t)
		if after := s.children("a"); len(after) != 1 || after[0] != before[1] {
			t.Errorf("the nodes were %q, and now %q: the place was lost", before, after)
		}
		release(t, lease)
	})
}

// The node of a waiter may be deleted, or go with its session: then it queues again.
func TestWaiterThatLostItsPlace(t *testing.T) {
	for what, take := range map[string]func(*server, string, int64){
		"deleted": func(s *server, path string, _ int64) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.remove(path)
		},
		"expired": func(s *server, _ string, session int64) { s.expire(session) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				holder, waiters := queue(t, s, "a", 2)
				second := s.children("a")[1]
				s.mu.Lock()
				session := s.tree.nodes["/locker/a/"+second].owner
				s.mu.Unlock()
				take(s, "/locker/a/"+second, session)
				eventually(t, "it queues again", func() bool {
					nodes := s.children("a")
					return len(nodes) == 3 && nodes[1] != second
				})
				waiters[0].pending(t)
				release(t, holder)
				release(t, waiters[1].granted(t)) // which has moved up
				release(t, waiters[0].granted(t))
			})
		})
	}
}

// A waiter that is looking at the queue when its session ends must not fail because of that: the
// engine is notified before Acquire returns, and starts a new acquisition.
func TestWaiterWhoseSessionEndsWhileItLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		holder := acquire(t, open(t, s), "a")
		d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithDialer(s.dial), zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		var notified atomic.Bool
		l, err := d.Lock(locker.Request{Name: "a", TTL: ttl}, func(error) {
			for range 1000 { // so that Acquire has the time to be first
				runtime.Gosched()
			}
			notified.Store(true)
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context()); !errors.Is(err, locker.ErrHeld) {
			t.Fatalf("Acquire = %v, want ErrHeld", err)
		}
		s.once("children", ignore)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := l.Acquire(t.Context()); err == nil || !notified.Load() {
				t.Errorf("Acquire = %v, and the loss was not reported before", err)
			}
		}()
		synctest.Wait()
		s.mu.Lock()
		s.muted = true
		s.endSession(s.last)
		s.mu.Unlock()
		synctest.Wait() // now it waits for a connection
		s.mu.Lock()
		s.muted = false
		s.mu.Unlock()
		s.sever()
		<-done
		if err := errors.Join(l.Release(t.Context()), d.Close(t.Context())); err != nil {
			t.Errorf("Release, or Close = %v, want nil", err)
		}
		release(t, holder)
	})
}

// Where the sequence numbers of a lock's node have come to their end, the order is that of the
// czxids.
func TestSequenceThatOverflows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		release(t, acquire(t, l, "a"))
		s.mu.Lock()
		s.tree.nodes["/locker/a"].next = 1<<31 - 2
		s.mu.Unlock()
		lease, waiters := queue(t, s, "a", 4) // the numbers go on below zero
		for i, w := range waiters {
			release(t, lease)
			lease = w.granted(t)
			for _, later := range waiters[i+1:] {
				later.pending(t)
			}
		}
		release(t, lease)
	})
}

// A thousand who wait: each release costs as much as with one, and wakes one. They are of one
// session here, as a thousand connections are more than a test needs.
func TestThousandWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters, releases = 1000, 20
		s := newServer(t)
		d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithDialer(s.dial), zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		granted := make(chan driver.Lock, waiters)
		for i := range waiters + 1 {
			l, err := d.Lock(locker.Request{Name: "a", TTL: time.Minute}, func(error) {})
			if err != nil {
				t.Fatal(err)
			}
			switch _, err := l.Acquire(ctx); {
			case i == 0 && err == nil:
				granted <- l
			case i > 0 && errors.Is(err, locker.ErrHeld):
				all.Go(func() {
					if _, err := l.Acquire(ctx); err == nil {
						granted <- l
					}
				})
			default:
				t.Fatalf("Acquire %d = %v", i, err)
			}
		}
		watches := func() (n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for c := range s.conns {
				n += len(c.watches)
			}
			return n
		}
		eventually(t, "all wait, and all nodes are watched", func() bool { return watches() == waiters+1 })
		s.asked()
		for range releases {
			if err := (<-granted).Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
		last := <-granted
		counts := make(map[string]int)
		for _, op := range s.asked() {
			counts[op]++
		}
		if counts["delete"] != releases || counts["children"] != releases-1 || counts["get"] > 0 || len(counts) != 2 {
			t.Errorf("%d releases asked for %v, want a delete each, and a list each but for the first", releases, counts)
		}
		_ = last.Release(ctx)
	})
}

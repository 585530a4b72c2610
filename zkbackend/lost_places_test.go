package zkbackend_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

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

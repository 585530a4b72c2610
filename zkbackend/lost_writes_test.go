package zkbackend_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/zkbackend"
)

// isWrite reports whether a request goes through the quorum.
func isWrite(r request) bool {
	return slices.Contains([]string{"multi", "create", "delete", "container"}, r.op)
}

// ignores lets the server answer nothing any more on a connection of session on which it was asked
// something that matches. It confirms the session on the next connection.
func (s *server) ignores(session int64, matches func(request) bool) {
	s.scripts(func(r request) verdict {
		if r.session == session && r.op != "close" && matches(r) {
			return ignore
		}
		return serve
	})
}

func (s *server) lastSession() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// A client whose session is confirmed on each connection, and whose requests, or whose writes, are
// not answered, doesn't keep its locks. The servers of these tests end no session by time, so the
// next holder is let in by the end of the session alone.
func TestSomeAnswersAreLost(t *testing.T) {
	for what, matches := range map[string]func(request) bool{
		"all but greetings": func(request) bool { return true },
		"writes":            isWrite,
	} {
		for how, opts := range map[string][]locker.Option{"renewed": nil, "without renewal": {locker.WithoutRenewal()}} {
			t.Run(what+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer(t)
					rival, l := open(t, s), open(t, s)
					session := s.lastSession()
					lease, queued := acquire(t, l, "a", opts...), acquire(t, rival, "b")
					next, waiting := wait(t, rival, "a"), wait(t, l, "b")
					s.nodesAre(t, "a", 2)
					s.nodesAre(t, "b", 2)
					if opts == nil {
						time.Sleep(time.Minute)
					}
					s.ignores(session, matches)
					began := time.Now()
					lost(t, ttl, lease, "deadline")
					if !s.knows(session) {
						t.Errorf("the session has ended with its lease, or before")
					}
					taken := next.granted(t)
					if took, bound := time.Since(began), ttl+rival.Guarantees().Expiry.Slack; took > bound {
						t.Errorf("the next one had the lock %v after the cut, want %v at most", took, bound)
					}
					waiting.pending(t)
					s.scripts(nil)
					s.nodesAre(t, "b", 2) // the waiter is back
					release(t, queued)
					release(t, waiting.granted(t))
					release(t, taken)
					release(t, acquire(t, l, "a"))
				})
			})
		}
	}
}

// A Locker that only waits loses its place, and queues again when it is served.
func TestWaiterWhoseWritesAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		other, l := open(t, s), open(t, s)
		session := s.lastSession()
		holder := acquire(t, other, "a")
		w := wait(t, l, "a")
		s.nodesAre(t, "a", 2)
		s.ignores(session, isWrite)
		eventually(t, "its session has ended", func() bool { return !s.knows(session) })
		s.scripts(nil)
		s.nodesAre(t, "a", 2)
		release(t, holder)
		release(t, w.granted(t))
	})
}

// A session without nodes ends as well when it is only confirmed: to connect again is no answer.
func TestIdleSessionThatIsOnlyGreeted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		session := s.lastSession()
		s.ignores(session, func(request) bool { return true })
		eventually(t, "its session has ended", func() bool { return !s.knows(session) })
		s.scripts(nil)
		release(t, acquire(t, l, "a"))
	})
}

// A node whose making was not answered is not known to be there, and keeps others out all the same.
func TestNodeInDoubtWhoseWritesAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		rival, l := open(t, s), open(t, s)
		session := s.lastSession()
		release(t, acquire(t, rival, "a"))
		made := false
		s.scripts(func(r request) verdict {
			switch {
			case r.session != session || !isWrite(r):
				return serve
			case !made:
				made = true
				return loseReply
			}
			return ignore
		})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "a"); err == nil {
			t.Fatal("Acquire = a lease, though its answer was lost")
		}
		s.nodesAre(t, "a", 1)
		release(t, wait(t, rival, "a").granted(t))
		if took, bound := time.Since(began), ttl+rival.Guarantees().Expiry.Slack; took > bound {
			t.Errorf("the next one had the lock %v after the acquisition, want %v at most", took, bound)
		}
	})
}

// A session lives on while it is idle, while its leases are renewed by hand, and after a node was
// in doubt.
func TestSessionThatIsServedLivesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		session := s.lastSession()
		time.Sleep(time.Minute)
		release(t, acquire(t, l, "a"))
		time.Sleep(time.Minute)
		lease := acquire(t, l, "a", locker.WithoutRenewal())
		for range 60 {
			time.Sleep(ttl / 2)
			if err := lease.Renew(t.Context()); err != nil {
				t.Fatalf("Renew = %v, want nil", err)
			}
		}
		lost(t, ttl, lease, "by the caller")
		s.nodesAre(t, "a", 0)
		time.Sleep(time.Minute)
		s.once("multi", loseReply) // a node in doubt, which is found and removed
		release(t, acquire(t, l, "a"))
		time.Sleep(time.Minute)
		if !s.knows(session) || s.lastSession() != session {
			t.Errorf("the Locker has another session, and nothing was lost")
		}
	})
}

// Nodes that are removed one by one, for longer than the session's timeout, are no reason to end
// it.
func TestSlowRemovalOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl), zkbackend.WithDialer(s.dial))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close(context.Background()) }()
		session := s.lastSession()
		var locks []driver.Lock
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			l, err := d.Lock(locker.Request{Name: name, TTL: ttl}, func(error) {})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			locks = append(locks, l)
		}
		for _, l := range locks {
			time.Sleep(ttl)
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		}
		if !s.knows(session) {
			t.Errorf("the session has ended, though each removal was answered")
		}
	})
}

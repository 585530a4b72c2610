package zkbackend_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/zkbackend"
)

// A request may arrive long after its connection was given up: the kernel goes on to send it. It is
// executed as long as its session exists, and isn't on another connection.

// arrive lets those requests arrive, and reports how many of them were executed.
func (s *server) arrive() (executed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.delayed {
		if request() {
			executed++
		}
	}
	s.delayed = nil
	return executed
}

// cuttable returns a driver that can't connect while cut is true.
func cuttable(t *testing.T, s *server) (d driver.Driver, cut *atomic.Bool) {
	t.Helper()
	cut = new(atomic.Bool)
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
	return d, cut
}

// stuck makes acquisitions of some locks whose requests of that kind are on their way until their
// session is over, on the client's side alone. No server has heard the farewell.
func stuck(t *testing.T, s *server, op string, names ...string) (locks []driver.Lock, session int64) {
	t.Helper()
	d, cut := cuttable(t, s)
	session = s.lastSession()
	s.scripts(func(r request) verdict {
		if r.session == session && r.op == op {
			cut.Store(true)
			return delay
		}
		return serve
	})
	var all sync.WaitGroup
	for _, name := range names {
		l, err := d.Lock(locker.Request{Name: name, TTL: ttl}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, l)
		all.Go(func() {
			if _, err := l.Acquire(t.Context()); err == nil {
				t.Errorf("Acquire = a grant, though nothing was answered")
			}
		})
	}
	all.Wait()
	time.Sleep(2 * ttl)
	if !s.knows(session) {
		t.Fatal("the session has ended: this test proves nothing")
	}
	cut.Store(false)
	s.scripts(nil)
	return locks, session
}

// Release returns nil only when the request that is on its way can't be executed any more.
func TestReleaseWhileARequestIsOnItsWay(t *testing.T) {
	for _, op := range []string{"multi", "container"} {
		for what, meanwhile := range map[string]func(*server, int64){
			"the session exists":  func(*server, int64) {},
			"its end was decided": (*server).forget,
		} {
			t.Run(op+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer(t)
					if op == "multi" {
						release(t, acquire(t, open(t, s), "a"))
					}
					locks, session := stuck(t, s, op, "a")
					meanwhile(s, session)
					if err := locks[0].Release(t.Context()); err != nil {
						t.Errorf("Release = %v, want nil", err)
					}
					if len(s.delayed) == 0 {
						t.Error("nothing is on its way: this test proves nothing")
					}
					if n := s.arrive(); n != 0 {
						t.Errorf("Release = nil, and %d requests were executed after it", n)
					}
					s.mu.Lock()
					defer s.mu.Unlock()
					if z := s.tree.nodes["/locker/a"]; z != nil && (op == "container" || len(z.children) != 0) {
						t.Errorf("after Release the lock's node exists, with %d nodes below it", len(z.children))
					}
				})
			})
		}
	}
}

// A request that arrives before the session has ended is executed, and what it has created is
// removed.
func TestRequestThatArrivesBeforeItsSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		release(t, acquire(t, open(t, s), "a"))
		locks, session := stuck(t, s, "multi", "a")
		s.scripts(func(r request) verdict {
			if r.session == session && r.op == "close" {
				return ignore
			}
			return serve
		})
		executed := s.arrive()
		for range 3 {
			if err := locks[0].Release(t.Context()); !contains(err, "confirmed the end of a session") {
				t.Errorf("Release = %v, want an error: nobody has ended the session", err)
			}
			if n := len(s.children("a")); n != 0 {
				t.Errorf("after a Release that couldn't confirm the end of the session, %d nodes keep others out", n)
			}
		}
		s.scripts(nil)
		if err := locks[0].Release(t.Context()); err != nil || executed != 1 || len(s.children("a")) != 0 {
			t.Errorf("Release = %v, %d requests were executed, and %d nodes exist; want nil, one and none", err, executed, len(s.children("a")))
		}
		s.asked()
		if err := locks[0].Release(t.Context()); err != nil {
			t.Errorf("Release again = %v, want nil", err)
		}
		s.wasAsked(t, "Release, where nothing can exist,")
	})
}

// A request may arrive when Release has looked for nodes, and the leader may decide to end the session
// right after that. So Release looks again.
func TestRequestThatArrivesDuringRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		release(t, acquire(t, open(t, s), "a"))
		locks, session := stuck(t, s, "multi", "a")
		looked, executed := false, false
		s.scripts(func(r request) verdict {
			if r.op == "multi" && looked && !executed {
				executed = s.delayed[0]()
				delete(s.sessions, session) // its nodes exist for now
			}
			looked = looked || r.op == "children"
			return serve
		})
		if err := locks[0].Release(t.Context()); err != nil || !executed || len(s.children("a")) != 0 {
			t.Errorf("Release = %v, the request was executed: %v, and %d nodes exist; want nil, true and none", err, executed, len(s.children("a")))
		}
	})
}

// Many acquisitions ask for the end of their session together.
func TestManyRequestsOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		var names []string
		for i := range 50 {
			names = append(names, fmt.Sprint(i))
			release(t, acquire(t, open(t, s), names[i]))
		}
		locks, session := stuck(t, s, "multi", names...)
		attempts := s.attempts(session)
		var all sync.WaitGroup
		for _, l := range locks {
			all.Go(func() {
				if err := l.Release(t.Context()); err != nil {
					t.Errorf("Release = %v, want nil", err)
				}
			})
		}
		all.Wait()
		if n := s.attempts(session) - attempts; n != 1 {
			t.Errorf("the session was asked for %d times, want once", n)
		}
		if n := s.arrive(); n != 0 {
			t.Errorf("%d requests were executed after their Release", n)
		}
	})
}

// A request without an answer isn't late any more when something that came after it is answered: its session
// isn't asked for when it has ended.
func TestRequestThatIsNotLateAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		release(t, acquire(t, l, "a"))
		s.once("multi", hangUpAfter)
		lease := acquire(t, l, "a", locker.WithoutRenewal())
		session := s.lastSession()
		attempts := s.attempts(session)
		s.forget(session)
		s.sever()
		lost(t, ttl, lease, "ended the session")
		eventually(t, "the node is removed", func() bool { return len(s.children("a")) == 0 })
		if n := s.attempts(session) - attempts; n > 1 { // the client's own
			t.Errorf("the session was asked for %d times, want once at most", n)
		}
	})
}

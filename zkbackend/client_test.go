package zkbackend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// What go-zookeeper does to its users, one test each.

// Requests that wait to be sent go out when there is a connection again, also under another
// session. Here each Conn has one session and no second one, so that no node is made that nobody
// knows.
func TestQueuedRequestsReachNoOtherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s, zkbackend.WithDialer(func(_ context.Context, network, addr string) (net.Conn, error) {
			return s.dial(context.Background(), network, addr) // one that ignores its context
		}))
		const names = 40 // more than go-zookeeper has room for
		release(t, acquire(t, l, "warm-up"))
		s.scripts(func(r request) verdict {
			if r.op == "multi" {
				return ignore
			}
			return serve
		})
		var waiters []*waiter
		for i := range names {
			waiters = append(waiters, wait(t, l, fmt.Sprint("name", i)))
		}
		eventually(t, "requests are under way", func() bool { return strings.Contains(fmt.Sprint(s.asked()), "multi") })
		s.mu.Lock()
		old := s.last
		s.script = nil
		s.endSession(old)
		s.mu.Unlock()
		for i, w := range waiters {
			lease := w.granted(t)
			nodes := s.children(fmt.Sprint("name", i))
			if len(nodes) != 1 {
				t.Errorf("name %d has %d nodes, want 1", i, len(nodes))
			}
			release(t, lease)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, z := range s.tree.nodes {
			if z.owner != 0 {
				t.Errorf("%s exists, and nobody knows of it", name)
			}
		}
		fresh := 0
		for _, session := range s.connects {
			if session == 0 {
				fresh++
			}
		}
		if want := 2 + 1 + 1; fresh != want { // probes, the session, and the one that came after it
			t.Errorf("%d sessions were asked for, want %d", fresh, want)
		}
	})
}

// The channel of events has room for six, and what comes then is dropped.
func TestManyEventsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		const n = 200
		var leases []locker.Lease
		for i := range n {
			leases = append(leases, acquire(t, l, fmt.Sprint(i), locker.WithTTL(time.Minute)))
		}
		eventually(t, "all nodes are watched", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			watched := 0
			for c := range s.conns {
				watched += len(c.watches)
			}
			return watched == n
		})
		s.mu.Lock()
		for name, z := range s.tree.nodes {
			if z.owner != 0 {
				s.remove(name)
			}
		}
		s.mu.Unlock()
		for _, lease := range leases {
			lost(t, soon, lease, "deleted")
		}
		// Session events still come.
		lease := acquire(t, l, "a")
		s.sever()
		release(t, lease)
	})
}

// The end of a session is only reported when the client connects again. The lease ends by its own
// clock.
func TestLeaseEndsByItsOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		before := time.Now()
		lease := acquire(t, l, "a")
		s.mu.Lock()
		s.muted = true
		s.mu.Unlock()
		lost(t, time.Until(before)+ttl, lease, "not renewed")
		s.mu.Lock()
		s.muted = false
		s.mu.Unlock()
		s.sever()
		release(t, acquire(t, l, "a")) // its session lives on, and its node was removed
	})
}

// A follower may keep the connection of a session that has ended, and go on to answer reads;
// go-zookeeper stays with it for as long.
func TestConnectionOfAnEndedSession(t *testing.T) {
	for _, before := range []string{"idle", "holding", "held by another"} {
		t.Run(before, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				l, other := open(t, s), open(t, s, zkbackend.WithDefaultTTL(2*ttl))
				var lease locker.Lease
				switch before {
				case "idle":
					release(t, acquire(t, l, "a"))
				case "holding":
					lease = acquire(t, l, "b")
				case "held by another":
					lease = acquire(t, other, "a")
				}
				s.mu.Lock()
				s.keeps = true
				s.endSession(3) // l's; two were probes
				asked := 0
				s.script = func(r request) verdict {
					if r.session == 3 && (r.op == "multi" || r.op == "delete") {
						if asked++; asked > 10 {
							return ignore // and time goes on
						}
					}
					return serve
				}
				s.mu.Unlock()
				waiter := wait(t, l, "a")
				if lease != nil {
					if before == "held by another" {
						s.nodesAre(t, "a", 2)
						release(t, lease)
					} else { // the node has gone, so this is no failure
						release(t, lease)
					}
				}
				release(t, waiter.granted(t))
				s.mu.Lock()
				defer s.mu.Unlock()
				if asked == 0 || asked > 2 {
					t.Errorf("the ended session was asked %d writes, want one, or two at the same time", asked)
				}
			})
		})
	}
}

// Its logger prints to the standard logger.
func TestNothingIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		var mu sync.Mutex
		defer log.SetOutput(log.Writer())
		log.SetOutput(writerFunc(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return text.Write(p)
		}))
		s := newServer(t)
		l := open(t, s)
		lease := acquire(t, l, "a")
		s.sever()
		release(t, lease)
		s.mu.Lock()
		s.endSession(s.last)
		s.mu.Unlock()
		release(t, acquire(t, l, "a"))
		_, _ = zkbackend.New(t.Context(), []string{"127.0.0.1:1"})
		_ = l.Close()
		mu.Lock()
		defer mu.Unlock()
		if text.Len() > 0 {
			t.Errorf("the log has: %s", text.String())
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// It knows no contexts.
func TestAcquireThatIsCancelledDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		release(t, acquire(t, l, "a"))
		s.once("multi", loseReply)
		s.asked()
		w := wait(t, l, "a")
		eventually(t, "the request is under way", func() bool { return strings.Contains(fmt.Sprint(s.asked()), "multi") })
		w.cancel()
		select {
		case <-w.done:
		case <-time.After(zkbackend.AnswerTimeout(ttl) / 2):
			t.Errorf("Acquire has not returned at once")
		}
		if !errors.Is(w.err, context.Canceled) {
			t.Errorf("Acquire = %v, want Canceled", w.err)
		}
		s.nodesAre(t, "a", 0) // though it was made
	})
}

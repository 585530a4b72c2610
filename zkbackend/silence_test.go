package zkbackend_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/zkconn"
	"github.com/fencedlock/locker/zkbackend"
)

// deafness is a network that loses what servers send, while it is set. What the client sends
// arrives.
type deafness struct{ atomic.Bool }

// dialer dials through the network.
func (d *deafness) dialer(s *server) zkbackend.Option {
	return zkbackend.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := s.dial(ctx, network, addr)
		return &deafConn{conn, d}, err
	})
}

type deafConn struct {
	net.Conn
	deaf *deafness
}

func (c *deafConn) Read(data []byte) (int, error) {
	for {
		n, err := c.Conn.Read(data)
		if err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}

// attempts counts the requests to connect for a session.
func (s *server) attempts(session int64) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.connects {
		if c == session {
			n++
		}
	}
	return n
}

func (s *server) knows(session int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[session] != nil
}

// A holder that the servers hear, and that doesn't hear them, ends its session when all of its
// leases are over. The servers of these tests end no session by time, so the next holder is let in
// by that alone.
func TestAnswersAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, deaf := newServer(t), new(deafness)
		rival := open(t, s)
		l := open(t, s, deaf.dialer(s))
		s.mu.Lock()
		session := s.last
		s.mu.Unlock()
		lease, queued := acquire(t, l, "a"), acquire(t, rival, "b")
		next, waiting := wait(t, rival, "a"), wait(t, l, "b")
		s.nodesAre(t, "a", 2)
		s.nodesAre(t, "b", 2)

		deaf.Store(true)
		began := time.Now()
		lost(t, ttl, lease, "deadline")
		if !s.knows(session) {
			t.Errorf("the session has ended with its lease; its waiters could have kept their places for longer")
		}
		taken := next.granted(t)
		if took, bound := time.Since(began), ttl+rival.Guarantees().Expiry.Slack; took > bound {
			t.Errorf("the next one had the lock %v after the cut, want %v at most", took, bound)
		}
		if s.knows(session) {
			t.Errorf("the lock was granted, and the session has not ended")
		}
		s.mu.Lock()
		asked := s.asks[session]
		s.mu.Unlock()
		if asked != time.Millisecond {
			t.Errorf("the last request to connect asked for a timeout of %v, want the shortest", asked)
		}
		attempts := s.attempts(session)
		time.Sleep(time.Minute)
		if n := s.attempts(session); n != attempts {
			t.Errorf("the session was asked for %d times more", n-attempts)
		}
		waiting.pending(t)

		deaf.Store(false)
		s.nodesAre(t, "b", 2) // the waiter is back
		release(t, queued)
		release(t, waiting.granted(t))
		release(t, taken)
		release(t, acquire(t, l, "a"))
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
}

// Where the way to the servers is lost as well, nobody hears the farewell. Nothing else asks for
// the session then.
func TestNothingArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		var cut atomic.Bool
		l := open(t, s, zkbackend.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if cut.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return s.dial(ctx, network, addr)
		}))
		s.mu.Lock()
		session := s.last
		s.mu.Unlock()
		lease := acquire(t, l, "a")
		cut.Store(true)
		s.sever()
		attempts := s.attempts(session)
		lost(t, ttl, lease, "deadline")
		time.Sleep(time.Minute)
		cut.Store(false)
		w := wait(t, l, "a") // after what the old session has left, until its owner removes that
		release(t, w.granted(t))
		s.nodesAre(t, "a", 0)
		if n := s.attempts(session); n != attempts {
			t.Errorf("the session was asked for %d times more", n-attempts)
		}
	})
}

// A server that is silent for less than the timeout costs waiters nothing.
func TestShortSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, deaf := newServer(t), new(deafness)
		other := open(t, s)
		l := open(t, s, deaf.dialer(s))
		holder := acquire(t, other, "a")
		w := wait(t, l, "a")
		s.nodesAre(t, "a", 2)
		before := s.children("a")
		for range 5 {
			deaf.Store(true)
			time.Sleep(ttl / 2)
			deaf.Store(false)
			time.Sleep(ttl)
		}
		if after := s.children("a"); !slices.Equal(after, before) {
			t.Errorf("the queue was %q and is %q", before, after)
		}
		release(t, holder)
		release(t, w.granted(t))
	})
}

// An answer that is read when the session is over already, as by a process that was stopped,
// revives no lease: the servers may be ending the session.
func TestAnswerAfterTheEnd(t *testing.T) {
	if before, after := zkbackend.WroteAround(tick, ttl); before != nil || after == nil || !zkconn.Broken(after) {
		t.Errorf("a write that is acknowledged before the session is over = %v, after it = %v; want nil, and an error as of a lost connection", before, after)
	}
}

// The next acquisition isn't kept out by what an earlier attempt of the same one has left under a
// session that is over here.
func TestLeftoverOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, deaf := newServer(t), new(deafness)
		d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl), deaf.dialer(s))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close(context.Background()) }()
		s.mu.Lock()
		session := s.last
		s.mu.Unlock()
		release(t, acquire(t, open(t, s), "a"))
		l, err := d.Lock(locker.Request{Name: "a", TTL: ttl}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		s.scripts(func(r request) verdict { // the farewell doesn't arrive
			switch {
			case r.session == session && r.op == "multi":
				deaf.Store(true)
			case r.session == session && r.op == "close":
				return ignore
			}
			return serve
		})
		if _, err := l.Acquire(t.Context()); err == nil {
			t.Fatal("Acquire = a grant, though its answer was lost")
		}
		s.nodesAre(t, "a", 1)
		time.Sleep(2 * ttl)
		deaf.Store(false)
		if !s.knows(session) {
			t.Fatal("the session has ended: this test proves nothing")
		}
		if _, err := l.Acquire(t.Context()); !errors.Is(err, locker.ErrHeld) {
			t.Fatalf("Acquire = %v, want that it queues after its own node", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if _, err := l.Acquire(ctx); err != nil {
			t.Errorf("Acquire = %v, want a grant: the node before its own is one of its own", err)
		}
		s.nodesAre(t, "a", 1)
		if err := l.Release(t.Context()); !contains(err, "confirmed the end of a session") {
			t.Errorf("Release = %v, want an error while the first session has not ended", err)
		}
		s.scripts(nil)
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		s.nodesAre(t, "a", 0)
	})
}

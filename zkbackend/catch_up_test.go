package zkbackend_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// slowConn takes a millisecond for each read.
type slowConn struct{ net.Conn }

func (c slowConn) Read(data []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return c.Conn.Read(data)
}

// slots has all slots of a lock held, and another Locker whose network is slow. f is called for each
// of that Locker's requests, with the number of transactions so far.
func slots(t *testing.T, n int, f func(s *server, r request, writes int)) (s *server, l locker.Locker, writes func() int) {
	t.Helper()
	s = newServer(t)
	other := open(t, s)
	for range n {
		if _, err := locker.AcquirePermit(t.Context(), other, "a", n); err != nil {
			t.Fatal(err)
		}
	}
	l = open(t, s, zkbackend.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := s.dial(ctx, network, addr)
		return slowConn{conn}, err
	}))
	s.mu.Lock()
	session := s.last
	s.mu.Unlock()
	count := 0
	s.scripts(func(r request) verdict {
		if r.session == session {
			if r.op == "multi" {
				count++
			}
			f(s, r, count)
		}
		return serve
	})
	return s, l, func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return count
	}
}

// A caller that asks for one slot, and then for seven at the same time, believes after three writes
// that all are held: one for the first, one for the first of the others, and one for the rest.
func TestSlotsShareAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, writes := slots(t, 8, func(*server, request, int) {})
		if _, err := locker.TryAcquirePermit(t.Context(), l, "a", 8); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquirePermit while all slots are held = %v, want ErrHeld", err)
		}
		if n := writes(); n != 3 {
			t.Errorf("%d writes, want 3", n)
		}
	})
}

// The node of a slot goes just before the write that several callers share. Only the caller that asks
// for this slot is told, and gets it; the others believe that theirs are held.
func TestMissingNodeOfOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		_, l, writes := slots(t, 8, func(s *server, r request, writes int) {
			if r.op == "exists" && strings.HasPrefix(r.path, "/locker/a") {
				asked = append(asked, r.path)
			}
			if r.op == "multi" && writes == 3 {
				last := asked[len(asked)-1]
				s.remove(last + "/" + s.tree.nodes[last].children[0])
				s.remove(last)
			}
		})
		permit, err := locker.TryAcquirePermit(t.Context(), l, "a", 8)
		if err != nil {
			t.Fatalf("TryAcquirePermit while one slot is free = %v, want a lease", err)
		}
		if n := writes(); n != 4 {
			t.Errorf("%d writes, want three for what is held and one for what is free", n)
		}
		release(t, permit)
	})
}

// Without a quorum nothing is known of a lock that was held. The time limit is the driver's own, so the
// error doesn't say that the caller gave up.
func TestTryAcquireWithoutQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		lease := acquire(t, other, "a", locker.WithTTL(time.Minute))
		s.scripts(func(r request) verdict {
			if r.op == "multi" {
				return ignore
			}
			return serve
		})
		began := time.Now()
		_, err := locker.TryAcquire(t.Context(), l, "a", locker.WithTTL(time.Minute))
		if err == nil || errors.Is(err, locker.ErrHeld) || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "\n") {
			t.Errorf("TryAcquire = %v, want an error that says that there is no answer", err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("TryAcquire has taken %v, want 5 s", took)
		}
		s.scripts(nil)
		release(t, lease)
	})
}

// What an earlier session has left of a TryAcquire is not taken for another holder's.
func TestTryAcquireOverTwoSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s, zkbackend.WithDigest("joe", "secret"))
		release(t, acquire(t, l, "a"))
		created, refused := false, false
		s.scripts(func(r request) verdict {
			switch {
			case r.op == "multi" && !created:
				created = true
				return hangUpAfter
			case r.op == "auth" && !refused: // so the session is over here, and lives on at the servers
				refused = true
				return reject
			}
			return serve
		})
		lease, err := locker.TryAcquire(t.Context(), l, "a")
		if err != nil {
			t.Fatalf("TryAcquire of a lock that nobody has = %v, want a lease", err)
		}
		if !created || !refused {
			t.Fatalf("nothing was disturbed")
		}
		s.nodesAre(t, "a", 1)
		release(t, lease)
		s.nodesAre(t, "a", 0)
	})
}

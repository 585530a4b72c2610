package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// limit is how long each request in these tests may take.
const limit = time.Second

// scripted is a server that answers a request when script says so, which gets the number of the
// connection and of the request on it.
type scripted struct {
	script  func(connection, request int) (after time.Duration, answers bool)
	mu      sync.Mutex
	dialled int
	ends    []net.Conn
}

func (s *scripted) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialled++
	s.ends = append(s.ends, far)
	go s.serve(far, s.dialled)
	return near, nil
}

func (s *scripted) serve(conn net.Conn, number int) {
	var writing sync.Mutex
	requests := json.NewDecoder(conn)
	for n := 1; ; n++ {
		var r request
		if requests.Decode(&r) != nil {
			_ = conn.Close()
			return
		}
		after, answers := s.script(number, n)
		if !answers {
			continue
		}
		go func() {
			time.Sleep(after)
			writing.Lock()
			defer writing.Unlock()
			// The reply says which request it is for.
			_ = json.NewEncoder(conn).Encode(reply{ID: r.ID, Left: []string{r.Op}})
		}()
	}
}

// try runs test on a client of such a server, in a bubble.
func try(
	t *testing.T, script func(connection, request int) (time.Duration, bool),
	test func(t *testing.T, s *scripted, c *client),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{script: script}
		c := newClient("", s.dial)
		test(t, s, c)
		if err := c.close(t.Context()); err != nil {
			t.Errorf("close = %v, want nil", err)
		}
		if _, err := c.do(t.Context(), limit, request{Op: "late"}); !errors.Is(err, kit.ErrClosing) {
			t.Errorf("a request after close = %v, want ErrClosing", err)
		}
		synctest.Wait() // the goroutines of the server end with their connections
	})
}

// wantReply fails the test unless a request is answered with its own reply.
func wantReply(t *testing.T, c *client, op string, resent bool) {
	t.Helper()
	a, err := c.do(t.Context(), limit, request{Op: op})
	if err != nil || len(a.Left) != 1 || a.Left[0] != op || a.resent != resent {
		t.Errorf("%s = %q, resent %v, %v; want its own reply, resent %v", op, a.Left, a.resent, err, resent)
	}
}

func (s *scripted) wantDialled(t *testing.T, want int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dialled != want {
		t.Errorf("%d connections were made, want %d", s.dialled, want)
	}
}

func TestALateReplyIsNobodys(t *testing.T) {
	try(t, func(_, n int) (time.Duration, bool) {
		return []time.Duration{limit / 2, limit * 3 / 4}[n-1], true
	}, func(t *testing.T, s *scripted, c *client) {
		why := errors.New("the caller has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(limit/10, func() { cancel(why) })
		if _, err := c.do(ctx, limit, request{Op: "given up"}); !errors.Is(err, why) {
			t.Errorf("a call whose context ended = %v, want its cause", err)
		}
		wantReply(t, c, "next", false)
		s.wantDialled(t, 1)
	})
}

func TestASilentConnectionIsLeft(t *testing.T) {
	try(t, func(connection, _ int) (time.Duration, bool) {
		return 0, connection > 1
	}, func(t *testing.T, s *scripted, c *client) {
		began := time.Now()
		wantReply(t, c, "asked twice", true)
		if took := time.Since(began); took != limit {
			t.Errorf("the reply took %v, want %v", took, limit)
		}
		s.wantDialled(t, 2)
	})
}

func TestSilenceIsSeenWhenAllCallersGiveUpEarly(t *testing.T) {
	try(t, func(connection, _ int) (time.Duration, bool) {
		return 0, connection > 1
	}, func(t *testing.T, s *scripted, c *client) {
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), limit/3)
			if _, err := c.do(ctx, limit, request{Op: "given up"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a call whose context ended = %v, want its error", err)
			}
			cancel()
			time.Sleep(time.Millisecond)
		}
		wantReply(t, c, "next", false)
		s.wantDialled(t, 2)
	})
}

func TestASlowAnswerBreaksNothing(t *testing.T) {
	try(t, func(_, n int) (time.Duration, bool) {
		return 0, n > 1
	}, func(t *testing.T, s *scripted, c *client) {
		slow := make(chan error)
		go func() {
			_, err := c.do(t.Context(), limit, request{Op: "slow"})
			slow <- err
		}()
		time.Sleep(limit / 2)
		wantReply(t, c, "fast", false)
		if err := <-slow; !errors.Is(err, locker.ErrNoAnswer) {
			t.Errorf("a request without an answer = %v, want ErrNoAnswer", err)
		}
		s.wantDialled(t, 1)
	})
}

// A connection that the server never owes a quick answer on isn't silent.
func TestAWaitIsNoSilence(t *testing.T) {
	try(t, func(_, n int) (time.Duration, bool) {
		return 5 * limit, n > 1
	}, func(t *testing.T, s *scripted, c *client) {
		if _, err := c.do(t.Context(), limit, request{Op: "wait"}); !errors.Is(err, locker.ErrNoAnswer) {
			t.Errorf("a wait without an answer = %v, want ErrNoAnswer", err)
		}
		if _, err := c.do(t.Context(), 6*limit, request{Op: "wait"}); err != nil {
			t.Errorf("a wait with an answer = %v", err)
		}
		s.wantDialled(t, 1)
	})
}

func TestABrokenConnectionWakesAllCallers(t *testing.T) {
	try(t, func(connection, _ int) (time.Duration, bool) {
		return 0, connection > 1
	}, func(t *testing.T, s *scripted, c *client) {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { wantReply(t, c, "asked twice", true) })
		}
		synctest.Wait()
		began := time.Now()
		_ = s.ends[0].Close()
		all.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("the replies took %v, want none to wait for a limit", took)
		}
		s.wantDialled(t, 2)
	})
}

// The second failure is the caller's.
func TestARequestIsSentTwiceAtMost(t *testing.T) {
	try(t, func(int, int) (time.Duration, bool) { return 0, false }, func(t *testing.T, s *scripted, c *client) {
		_, err := c.do(t.Context(), limit, request{Op: "asked twice"})
		if !errors.Is(err, errBroken) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) {
			t.Errorf("a request without an answer = %v, want errBroken", err)
		}
		s.wantDialled(t, 2)
	})
}

// A copy of a request to acquire may arrive when the lock was released.
func TestALateAcquisitionIsRefused(t *testing.T) {
	for _, late := range []bool{false, true} {
		s, mine := newStore(), key{"name", "me"}
		s.acquire(mine, time.Minute)
		s.release(mine, late)
		if token := s.acquire(mine, time.Minute); (token == 0) != late {
			t.Errorf("after a release with late = %v, acquire = %v", late, token)
		}
		if other := (key{"name", "other"}); late && s.acquire(other, time.Minute) == locker.Token(0) {
			t.Errorf("the name is not free for others")
		}
	}
}

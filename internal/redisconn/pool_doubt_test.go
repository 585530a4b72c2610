package redisconn_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
)

// aging is a server whose connections so far can be made to answer differently from later ones.
type aging struct {
	addr  string
	mu    sync.Mutex
	aged  map[net.Conn]bool
	reply string // on a connection that has aged
	wait  func() // before that reply; nil: at once
}

func newAging(t *testing.T, reply string) *aging {
	t.Helper()
	a := &aging{aged: make(map[net.Conn]bool), reply: reply}
	a.addr = redistest.Listen(t, func(conn net.Conn) {
		a.mu.Lock()
		a.aged[conn] = false
		a.mu.Unlock()
		redistest.Serve(conn, func(command []string) string {
			a.mu.Lock()
			aged := a.aged[conn]
			a.mu.Unlock()
			switch {
			case aged && a.wait != nil:
				a.wait()
				return a.reply
			case aged:
				return a.reply
			case strings.EqualFold(command[0], "evalsha"):
				return ":1\r\n"
			}
			return redistest.Handshake(command)
		})
	})
	return a
}

// age ages the connections so far, and returns how many there are.
func (a *aging) age() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for conn := range a.aged {
		a.aged[conn] = true
	}
	return len(a.aged)
}

// idle makes n connections of c, and leaves them idle.
func idle(t *testing.T, c *redisconn.Conn, n int) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if _, err := ask(t.Context(), c); err != nil {
				t.Errorf("a call = %v", err)
			}
		})
	}
	all.Wait()
}

// When nothing is heard on a connection, or it leads to a replica, another one that was idle meanwhile
// isn't tried: the next call connects.
func TestPoolDoubtsIdleConnections(t *testing.T) {
	for what, reply := range map[string]string{
		"silent":    redistest.Silence,
		"a replica": "-READONLY You can't write against a read only replica.\r\n",
	} {
		t.Run(what, func(t *testing.T) {
			a := newAging(t, reply)
			c := pooledTo(t, &redis.Options{Addr: a.addr, PoolSize: 8})
			for n := 0; n < 2; n = a.connections() {
				idle(t, c, 8)
			}
			a.age()
			cmd := redisconn.NewCommand(t.Context(), "evalsha", "x", 0)
			if err := c.SendUntil(t.Context(), time.Now().Add(300*time.Millisecond), cmd); err == nil && cmd.Err() == nil {
				t.Error("a call on a connection that has aged = nil")
			}
			if got, err := ask(t.Context(), c); got != int64(1) {
				t.Errorf("the next call = %v, %v, want 1", got, err)
			}
		})
	}
}

// A context that ends by its deadline says the same, whichever is noticed first: its end or the deadline.
func TestPoolDoubtsIdleConnectionsAtTheEndOfAContext(t *testing.T) {
	t.Parallel()
	a := newAging(t, redistest.Silence)
	c := pooledTo(t, &redis.Options{Addr: a.addr, PoolSize: 8})
	for range 5 {
		for n := 0; n < 2; n = a.connections() {
			idle(t, c, 8)
		}
		a.age()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		cmd := redisconn.NewCommand(ctx, "evalsha", "x", 0)
		if err := c.Send(ctx, cmd); err == nil && cmd.Err() == nil {
			t.Error("a call on a connection that has aged = nil")
		}
		cancel()
		if got, err := ask(t.Context(), c); got != int64(1) {
			t.Errorf("the next call = %v, %v, want 1", got, err)
		}
	}
}

// A caller that gives up soon says nothing about the other connections.
func TestPoolKeepsConnectionsOfImpatientCallers(t *testing.T) {
	a := newAging(t, redistest.Silence)
	c := pooledTo(t, &redis.Options{Addr: a.addr, PoolSize: 8})
	for n := 0; n < 2; n = a.connections() {
		idle(t, c, 8)
	}
	before := a.age()
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := ask(ctx, c); err == nil {
		t.Error("a call on a connection that has aged = nil")
	}
	took := time.Since(began)
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _ = ask(soon, c)
	if n := a.connections(); n != before && took < time.Second { // after a second there is doubt
		t.Errorf("%d connections were made for the next call, want none", n-before)
	}
}

// Nor does a deadline after a few milliseconds, which a server that answers may miss.
func TestPoolKeepsConnectionsOfCallersWithoutTime(t *testing.T) {
	a := newAging(t, redistest.Silence)
	c := pooledTo(t, &redis.Options{Addr: a.addr, PoolSize: 8})
	for n := 0; n < 3; n = a.connections() {
		idle(t, c, 8)
	}
	before := a.age()
	began := time.Now()
	cmd := redisconn.NewCommand(t.Context(), "evalsha", "x", 0)
	if err := c.SendUntil(t.Context(), began.Add(3*time.Millisecond), cmd); err != nil && !errors.Is(err, kit.ErrNotSent) {
		t.Error(err) // not sent: this process was slow
	}
	took := time.Since(began)
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _ = ask(soon, c)
	if n := a.connections(); n != before && took < redisconn.LeastSilence {
		t.Errorf("%d connections were made for the next call, want none", n-before)
	}
}

// Several such deadlines, one after the other, do: not each idle connection is tried.
func TestPoolDoubtsAfterShortSilences(t *testing.T) {
	a := newAging(t, redistest.Silence)
	var asked atomic.Int32
	a.wait = func() { asked.Add(1) }
	c := pooledTo(t, &redis.Options{Addr: a.addr, PoolSize: 32})
	for n := 0; n < 12; n = a.connections() {
		idle(t, c, 32)
	}
	const limit = 5 * time.Millisecond
	for before := a.age(); a.connections() == before && asked.Load() < 12; {
		_ = c.SendUntil(t.Context(), time.Now().Add(limit), redisconn.NewCommand(t.Context(), "evalsha", "x", 0))
	}
	if n, most := asked.Load(), int32(redisconn.LeastSilence/limit)+1; n > most {
		t.Errorf("%d connections were tried that have aged, for %v each, want %d at most", n, limit, most)
	}
}

// A caller that waits longer than it wants to doubts the idle connections. If its answer comes after all,
// the server was slow, and they are used again.
func TestPoolAndALateAnswer(t *testing.T) {
	for _, comes := range []bool{true, false} {
		first, rest := make(chan struct{}), make(chan struct{})
		var calls atomic.Int32
		a := newAging(t, ":1\r\n")
		a.wait = func() {
			if calls.Add(1) == 1 {
				<-first
			} else {
				<-rest
			}
		}
		c := pooledTo(t, &redis.Options{Addr: a.addr, PoolSize: 8})
		for n := 0; n < 3; n = a.connections() {
			idle(t, c, 8)
		}
		before := a.age()
		var all sync.WaitGroup
		call := func() { _, _ = ask(t.Context(), c) }
		answered := make(chan struct{})
		all.Go(func() {
			defer close(answered)
			call()
		})
		for calls.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		c.DoubtIdle(time.Now())
		if comes {
			close(first)
			<-answered
		}
		for range 2 { // one may get the connection with the answer
			all.Go(call)
		}
		made := 0
		for calls.Load() < 3 && made == 0 { // until the old connections have the calls, or a new one is made
			time.Sleep(time.Millisecond)
			made = a.connections() - before
		}
		if (made == 0) != comes {
			t.Errorf("the late answer comes: %v, and %d connections are made for the next calls", comes, made)
		}
		if !comes {
			close(first)
		}
		close(rest)
		all.Wait()
	}
}

func (a *aging) connections() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.aged)
}

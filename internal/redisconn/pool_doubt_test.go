package redisconn_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/internal/redisconn"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
)

// aging is a server whose connections so far can be made to answer differently from later ones.
type aging struct {
	addr  string
	mu    sync.Mutex
	aged  map[net.Conn]bool
	reply string // on a connection that has aged
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
			defer a.mu.Unlock()
			switch {
			case a.aged[conn]:
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

// When nothing is heard on a connection, or it leads to a replica, the others that were idle
// meanwhile aren't tried as well: the next call connects.
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
			if err := c.SendUntil(t.Context(), time.Now().Add(1100*time.Millisecond), cmd); err == nil && cmd.Err() == nil {
				t.Error("a call on a connection that has aged = nil")
			}
			if got, err := ask(t.Context(), c); got != int64(1) {
				t.Errorf("the next call = %v, %v, want 1", got, err)
			}
		})
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
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := ask(ctx, c); err == nil {
		t.Error("a call on a connection that has aged = nil")
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _ = ask(soon, c)
	if n := a.connections(); n != before {
		t.Errorf("%d connections were made for the next call, want none", n-before)
	}
}

func (a *aging) connections() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.aged)
}

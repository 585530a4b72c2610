package redisconn_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/internal/redisconn"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
)

// A connection that the server has ended while nobody used it is replaced before the next request
// is sent, so that the request is executed once.
func TestPoolReplacesIdleConnections(t *testing.T) {
	var sent atomic.Int32
	var open net.Conn
	addr := redistest.Listen(t, func(conn net.Conn) {
		open = conn
		redistest.Serve(conn, func(command []string) string {
			if command[0] == "evalsha" {
				sent.Add(1)
				return ":1\r\n"
			}
			return redistest.Handshake(command)
		})
	})
	c := pooledTo(t, &redis.Options{Addr: addr, PoolSize: 1})
	for range 3 {
		if got, err := ask(t.Context(), c); got != int64(1) {
			t.Errorf("a call = %v, %v, want 1", got, err)
		}
		_ = open.Close()
		time.Sleep(150 * time.Millisecond) // longer than a connection stays without a look
	}
	if n := sent.Load(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// When all connections end at once, one call learns it, and the next one connects again.
func TestPoolConnectsAgainAfterAllHaveEnded(t *testing.T) {
	const size = 4
	var mu sync.Mutex
	var open []net.Conn
	together := make(chan struct{})
	var asked atomic.Int32
	addr := redistest.Listen(t, func(conn net.Conn) {
		mu.Lock()
		open = append(open, conn)
		mu.Unlock()
		redistest.Serve(conn, func(command []string) string {
			if command[0] != "evalsha" {
				return redistest.Handshake(command)
			}
			if asked.Add(1) == size {
				close(together)
			}
			<-together
			return ":1\r\n"
		})
	})
	c := pooledTo(t, &redis.Options{Addr: addr, PoolSize: size})
	var all sync.WaitGroup
	for range size {
		all.Go(func() {
			if _, err := ask(t.Context(), c); err != nil {
				t.Errorf("a call = %v", err)
			}
		})
	}
	all.Wait()
	mu.Lock()
	for _, conn := range open {
		_ = conn.Close()
	}
	mu.Unlock()
	if _, err := ask(t.Context(), c); err == nil {
		t.Error("a call on a connection that has ended = nil")
	}
	if got, err := ask(t.Context(), c); got != int64(1) {
		t.Errorf("the next call = %v, %v, want 1", got, err)
	}
}

// A server that refuses the password now may accept it later.
func TestPoolConnectsAgainAfterRefusal(t *testing.T) {
	var refuses atomic.Bool
	refuses.Store(true)
	addr := redistest.Listen(t, func(conn net.Conn) {
		redistest.Serve(conn, func(command []string) string {
			switch {
			case command[0] == "evalsha":
				return ":1\r\n"
			case command[0] == "auth" && refuses.Load():
				return "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
			}
			return redistest.Handshake(command)
		})
	})
	c := pooledTo(t, &redis.Options{Addr: addr, Password: "open-sesame"})
	for range 2 {
		if _, err := ask(t.Context(), c); !redisconn.Says(err, "WRONGPASS") || strings.Contains(err.Error(), "bad state") {
			t.Errorf("a call with a password that is refused = %v, want WRONGPASS", err)
		}
	}
	refuses.Store(false)
	if got, err := ask(t.Context(), c); got != int64(1) {
		t.Errorf("a call with a password that is accepted = %v, %v, want 1", got, err)
	}
}

// Calls that have no time to connect find a connection nevertheless: it is made next to them.
func TestPoolConnectsAside(t *testing.T) {
	var connections atomic.Int32
	addr := redistest.Listen(t, func(conn net.Conn) {
		connections.Add(1)
		redistest.Serve(conn, func(command []string) string {
			if strings.EqualFold(command[0], "evalsha") {
				return ":1\r\n"
			}
			time.Sleep(100 * time.Millisecond) // each step of the greeting takes so long, and a PING
			return redistest.Handshake(command)
		})
	})
	for limit, until := range map[string]time.Duration{"a context": 0, "a context, and an end that is later": 2 * time.Second} {
		connections.Store(0)
		c := pooledTo(t, &redis.Options{Addr: addr, PoolSize: 4})
		for began := time.Now(); ; {
			ctx, cancel := context.WithTimeout(t.Context(), 80*time.Millisecond)
			cmd := redisconn.NewCommand(ctx, "evalsha", "x", 0)
			var err error
			if until == 0 {
				err = c.Send(ctx, cmd)
			} else {
				err = c.SendUntil(ctx, time.Now().Add(until), cmd)
			}
			if err == nil {
				err = cmd.Err()
			}
			cancel()
			if err == nil {
				break
			}
			if time.Since(began) > 10*time.Second {
				t.Fatalf("calls with %s find no connection in 80 ms: %v", limit, err)
			}
		}
		t.Logf("%s: %d connections were made", limit, connections.Load())
	}
}

// A client of -1 retries has 0 in its options, which a client that is made of these would take for the
// default, 3. Then a call that is given up while a connection is greeted would return late.
func TestPoolNeverRetries(t *testing.T) {
	client := redis.NewClient(&redis.Options{MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	if n := redisconn.Retries(redisconn.NewPool(client.Options())); n != 0 {
		t.Errorf("a connection has %d retries, want none", n)
	}
}

// The answer that the server doesn't know a script comes from the server: the connection stays.
func TestPoolKeepsAConnectionWithoutTheScript(t *testing.T) {
	var connections atomic.Int32
	addr := redistest.Listen(t, func(conn net.Conn) {
		connections.Add(1)
		redistest.Serve(conn, func(command []string) string {
			if strings.EqualFold(command[0], "evalsha") {
				return "-NOSCRIPT No matching script.\r\n"
			}
			return redistest.Handshake(command)
		})
	})
	c := pooledTo(t, &redis.Options{Addr: addr, PoolSize: 4})
	for range 2 {
		if _, err := ask(t.Context(), c); !redisconn.Says(err, "NOSCRIPT") {
			t.Errorf("a call = %v, want NOSCRIPT", err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections were made, want 1", n)
	}
}

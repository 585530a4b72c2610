package redisconn_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
)

// pooled makes a Conn with a Pool to a server, and counts the connections.
func pooled(t *testing.T, size int, answer func(command []string) string) (c *redisconn.Conn, connections *atomic.Int32) {
	t.Helper()
	connections = new(atomic.Int32)
	addr := redistest.Listen(t, func(conn net.Conn) {
		connections.Add(1)
		redistest.Serve(conn, func(command []string) string {
			if command[0] == "evalsha" {
				return answer(command)
			}
			return redistest.Handshake(command)
		})
	})
	return pooledTo(t, &redis.Options{Addr: addr, PoolSize: size}), connections
}

func pooledTo(t *testing.T, o *redis.Options) *redisconn.Conn {
	t.Helper()
	o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries = true, -1, 1
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	c := redisconn.NewConn(client, 0)
	c.UsePool()
	return c
}

// atOnce fails the test if something takes as long as a timeout of go-redis, which is five seconds.
func atOnce(t *testing.T, what string, since time.Time) {
	t.Helper()
	if took := time.Since(since); took > 3*time.Second {
		t.Errorf("%s after %v, want it at once", what, took)
	}
}

func TestPoolObeysContexts(t *testing.T) {
	asked := make(chan struct{}, 1)
	silent := true
	c, connections := pooled(t, 1, func([]string) string {
		if silent {
			asked <- struct{}{}
			return redistest.Silence
		}
		return ":1\r\n"
	})
	if !c.ObeysContext() {
		t.Error("it doesn't obey contexts")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended time.Time
	go func() {
		<-asked
		ended = time.Now()
		cancel()
	}()
	if _, err := ask(ctx, c); !errors.Is(err, locker.ErrNoAnswer) || redisconn.NotExecuted(err) {
		t.Errorf("a call that is interrupted = %v, want ErrNoAnswer, and it was sent", err)
	}
	atOnce(t, "it returned", ended)
	if _, err := ask(ctx, c); !errors.Is(err, kit.ErrNotSent) {
		t.Errorf("a call with a context that is over = %v, want ErrNotSent", err)
	}
	silent = false
	for range 3 {
		if got, err := ask(t.Context(), c); got != int64(1) {
			t.Errorf("the next call = %v, %v, want 1", got, err)
		}
	}
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections, want another one after the call that was interrupted, which stays", n)
	}
}

// A deadline needs no timer of a context.
func TestPoolObeysDeadlines(t *testing.T) {
	t.Parallel()
	c, _ := pooled(t, 1, func([]string) string { return redistest.Silence })
	for range 2 {
		end := time.Now().Add(time.Second) // to connect as well
		cmd := redisconn.NewCommand(t.Context(), "evalsha", "x", 0)
		ctx, until := c.DeadlineOnly(t.Context(), end)
		err := c.SendUntil(ctx, until, cmd)
		if err == nil {
			_, err = cmd.Result()
		}
		if !redisconn.Silent(err) || redisconn.NotExecuted(err) || time.Now().Before(end) {
			t.Errorf("a call with a deadline = %v, want that nothing was heard, and it was sent", err)
		}
		atOnce(t, "it returned", end)
	}
}

// A server that accepts connections and never speaks TLS is met while connecting.
func TestPoolObeysContextsWhileConnecting(t *testing.T) {
	connected := make(chan struct{}, 1)
	hold := make(chan struct{})
	addr := redistest.Listen(t, func(net.Conn) { connected <- struct{}{}; <-hold })
	defer close(hold)
	c := pooledTo(t, &redis.Options{Addr: addr, TLSConfig: &tls.Config{InsecureSkipVerify: true}})
	ctx, cancel := context.WithCancel(t.Context())
	var ended time.Time
	go func() {
		<-connected
		ended = time.Now()
		cancel()
	}()
	if _, err := ask(ctx, c); !redisconn.NotExecuted(err) {
		t.Errorf("a call that is interrupted while it connects = %v, want an error that says that nothing was sent", err)
	}
	atOnce(t, "it returned", ended)
}

// A server that accepts connections and never speaks has got no command: the connection is still being
// greeted when the call ends.
func TestPoolSendsNothingBeforeTheGreeting(t *testing.T) {
	var sent atomic.Int32
	addr := redistest.Listen(t, func(conn net.Conn) {
		redistest.Serve(conn, func(command []string) string {
			if command[0] == "evalsha" {
				sent.Add(1)
			}
			return redistest.Silence
		})
	})
	for what, call := range map[string]func(c *redisconn.Conn, cmd *redisconn.Command) error{
		"is cancelled": func(c *redisconn.Conn, cmd *redisconn.Command) error {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			return c.Send(ctx, cmd)
		},
		"has a context that ends": func(c *redisconn.Conn, cmd *redisconn.Command) error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			return c.Send(ctx, cmd)
		},
		"has a deadline": func(c *redisconn.Conn, cmd *redisconn.Command) error {
			return c.SendUntil(t.Context(), time.Now().Add(50*time.Millisecond), cmd)
		},
	} {
		c := pooledTo(t, &redis.Options{Addr: addr, PoolSize: 4})
		cmd := redisconn.NewCommand(t.Context(), "evalsha", "x", 0)
		err := call(c, cmd)
		if err == nil {
			err = cmd.Err()
		}
		if !redisconn.NotExecuted(err) || !redisconn.Silent(err) {
			t.Errorf("a call that %s while a connection is greeted = %v, want that nothing was heard, and nothing sent", what, err)
		}
	}
	if n := sent.Load(); n != 0 {
		t.Errorf("%d commands were sent", n)
	}
}

// No more connections than the client may have: other calls wait, and leave when their context
// ends.
func TestPoolIsLimited(t *testing.T) {
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	c, connections := pooled(t, 1, func([]string) string { asked <- struct{}{}; <-answer; return ":1\r\n" })
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := ask(t.Context(), c); err != nil {
			t.Errorf("the first call = %v", err)
		}
	})
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := ask(ctx, c); !errors.Is(err, kit.ErrNotSent) || connections.Load() != 1 {
		t.Errorf("a call that waits for a connection = %v, with %d connections, want ErrNotSent with one", err, connections.Load())
	}
	close(answer)
	all.Wait()
	if _, err := ask(t.Context(), c); err != nil || connections.Load() != 1 {
		t.Errorf("the next call = %v, with %d connections, want nil with one", err, connections.Load())
	}
}

// Close ends calls, and connections that are idle.
func TestPoolEndsWithClose(t *testing.T) {
	asked := make(chan struct{}, 1)
	c, _ := pooled(t, 2, func([]string) string { asked <- struct{}{}; return redistest.Silence })
	var ended time.Time
	go func() {
		<-asked
		ended = time.Now()
		c.Close()
	}()
	if _, err := ask(t.Context(), c); err == nil {
		t.Error("a call during Close = nil, and the server has not answered")
	}
	atOnce(t, "it returned", ended)
	if _, err := ask(t.Context(), c); !errors.Is(err, kit.ErrClosing) || !errors.Is(err, kit.ErrNotSent) {
		t.Errorf("a call after Close = %v, want ErrClosing and ErrNotSent", err)
	}
}

// Contexts that end just when the answer comes: such a call has an answer or an error, and no
// interruption reaches the next call on the connection.
func TestPoolUnderLoad(t *testing.T) {
	var cancels sync.Map // of the requests, by id
	c, _ := pooled(t, 1, func(command []string) string {
		if cancel, ok := cancels.Load(command[3]); ok {
			go cancel.(context.CancelFunc)()
		}
		return ":1\r\n"
	})
	call := func(ctx context.Context, id int) (any, error) {
		cmd := redisconn.NewCommand(ctx, "evalsha", "x", 0, id)
		if err := c.Send(ctx, cmd); err != nil {
			return nil, err
		}
		return cmd.Result()
	}
	for id := range 500 {
		ctx, cancel := context.WithCancel(t.Context())
		cancels.Store(strconv.Itoa(id), cancel)
		if got, err := call(ctx, id); err == nil && got != int64(1) {
			t.Fatalf("a call = %v, want 1", got)
		}
		cancel()
		if got, err := call(t.Context(), -1); got != int64(1) {
			t.Fatalf("a call after one that was interrupted = %v, %v, want 1", got, err)
		}
	}
}

// Contexts interrupt no calls of clients whose connections are not known.
func TestClientsWithoutPool(t *testing.T) {
	behind := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	defer behind.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	for _, client := range []redis.UniversalClient{behind, cluster} {
		c := redisconn.NewConn(client, time.Second)
		if c.UsePool(); c.ObeysContext() {
			t.Errorf("a %T obeys contexts", client)
		}
	}
}

package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
)

// pooledConn is a client of go-redis with one connection, which closing the client closes. It is
// thrown away when the connection fails.
type pooledConn struct {
	client *redis.Client
	conn   *redis.Conn // keeps the client's connection, which saves the way through the pool of go-redis; nil: not used yet
	proven bool        // a command has succeeded on conn
	opened bool        // a connection was greeted. Before that, no command of a call is sent
	used   time.Time   // when the last call began
	heard  time.Time   // when the last call that was answered ended
	dialer dialer

	mu       sync.Mutex
	call     *pooledCall        // under way
	stopDial context.CancelFunc // ends the dial of that call; nil: none is under way
}

// pooledCall is the context of one call for go-redis: it has a deadline, but no timer, and doesn't
// end. The deadline bounds reading and writing, and interrupt ends all else.
type pooledCall struct {
	context.Context           //nolint:containedctx // a context is what this is
	end             time.Time // zero: the timeouts of the client alone

	interrupted bool // the mutex of its pooledConn guards this
}

func (c *pooledCall) Deadline() (time.Time, bool) { return c.end, !c.end.IsZero() }

// dialer is net.Dialer, or the one of TLS.
type dialer interface {
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

// keepAlive is what go-redis' own dialer sets.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

func newPooledConn(o redis.Options) *pooledConn {
	d := &net.Dialer{Timeout: o.DialTimeout, KeepAliveConfig: keepAlive}
	c := &pooledConn{dialer: d}
	if o.TLSConfig != nil {
		c.dialer = &tls.Dialer{NetDialer: d, Config: o.TLSConfig} // go-redis' own ignores contexts
	}
	o.Dialer, o.PushNotificationProcessor = c.dial, nil // each client has a processor of its own
	o.OnConnect = func(context.Context, *redis.Conn) error {
		c.opened = true // on the goroutine of the call
		return nil
	}
	c.client = redis.NewClient(&o)
	return c
}

// checkAfter is how long a connection is used without a check whether the server has ended it. (The
// pool of go-redis checks when a connection is taken out.) If the server ends it within that time,
// the next request fails, and nobody knows whether it was executed.
const checkAfter = 100 * time.Millisecond

// refresh has the pool of go-redis check a connection that was not used for a while.
func (c *pooledConn) refresh(now time.Time) {
	idle := now.Sub(c.used)
	c.used = now
	if c.conn != nil && idle <= checkAfter {
		return
	}
	if c.conn != nil {
		_ = c.conn.Close() // gives the connection back to the pool of go-redis
	}
	c.conn, c.proven = c.client.Conn(), false
}

// dial connects for the call that is under way.
func (c *pooledConn) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	call := c.call
	if call == nil || call.interrupted {
		c.mu.Unlock()
		return nil, failedDial(network, context.Canceled)
	}
	ctx, c.stopDial = within(ctx, call.end)
	stop := c.stopDial
	c.mu.Unlock()
	defer stop()
	conn, err := c.dialer.DialContext(ctx, network, addr)
	if err != nil && !Unsent(err) {
		err = failedDial(network, err) // a handshake's error doesn't say that nothing was sent
	}
	return conn, err
}

func failedDial(network string, err error) error {
	return &net.OpError{Op: "dial", Net: network, Err: err}
}

// interrupt ends a call, unless that has ended already.
func (c *pooledConn) interrupt(call *pooledCall) {
	c.mu.Lock()
	current := c.call == call
	call.interrupted = true
	if current && c.stopDial != nil {
		c.stopDial()
	}
	c.mu.Unlock()
	if current {
		_ = c.client.Close() // also the connection that is in use
	}
}

// process makes a call. A call that is interrupted before it begins sends nothing.
func (c *pooledConn) process(call *pooledCall, cmds []redis.Cmder) error {
	if len(cmds) == 1 {
		return c.conn.Process(call, cmds[0])
	}
	pipe := c.conn.Pipeline()
	_ = pipe.BatchProcess(call, cmds...)
	_, err := pipe.Exec(call)
	return err
}

func (c *pooledConn) begin(call *pooledCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.call = call
}

// finish reports whether the call was interrupted.
func (c *pooledConn) finish() (interrupted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	interrupted = c.call.interrupted
	c.call, c.stopDial = nil, nil
	return interrupted
}

// unheard is the error of a call that was interrupted, or on which nothing was heard before the connection was
// greeted; nil: the commands have their errors. Of an interruption go-redis says that the connection was closed.
func (c *pooledConn) unheard(err error, interrupted bool) error {
	switch {
	case err == nil || Unsent(err) || !interrupted && !Silent(err):
		return nil
	case !c.opened:
		return failedDial(c.client.Options().Network, locker.ErrNoAnswer)
	case interrupted:
		return locker.ErrNoAnswer
	}
	return nil
}

// keeps reports whether the connection is as it was before the commands. When go-redis connects it
// sends commands of its own, and an error of these is returned as the error of the caller's first
// command. So until a command has succeeded, an error may mean that there is no connection. (NOSCRIPT
// is an answer to none of those.) After READONLY go-redis closes the connection.
func (c *pooledConn) keeps(cmds []redis.Cmder) bool {
	failed := false
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			failed = true
			var reply redis.Error
			c.proven = c.proven || Says(err, "NOSCRIPT")
			if !c.proven || !errors.As(err, &reply) || Says(err, "READONLY") {
				return false
			}
		}
	}
	c.proven = c.proven || !failed
	return true
}

// within is context.WithDeadline. A zero end is none.
func within(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end)
}

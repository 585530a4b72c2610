package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// line is a way to the server. It is thrown away when its connection fails.
type line struct {
	client *redis.Client
	conn   *redis.Conn // keeps the client's connection, which saves the way through the pool; nil: not used yet
	proven bool        // a command has succeeded on conn
	used   time.Time   // when the last call began
	dialer dialer

	mu       sync.Mutex
	call     *lineCall          // under way
	stopDial context.CancelFunc // ends the dial of that call; nil: none is under way
}

// lineCall is the context of one call for go-redis: it has a deadline, but no timer, and doesn't
// end. The deadline bounds reading and writing, and interrupt ends all else.
type lineCall struct {
	context.Context           //nolint:containedctx // a context is what this is
	end             time.Time // zero: the timeouts of the client alone

	interrupted bool // the mutex of its line guards it
}

func (c *lineCall) Deadline() (time.Time, bool) { return c.end, !c.end.IsZero() }

// dialer is net.Dialer, or that of TLS.
type dialer interface {
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

// keepAlive is that of go-redis' own dialer.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

func newLine(o redis.Options) *line {
	d := &net.Dialer{Timeout: o.DialTimeout, KeepAliveConfig: keepAlive}
	l := &line{dialer: d}
	if o.TLSConfig != nil {
		l.dialer = &tls.Dialer{NetDialer: d, Config: o.TLSConfig} // that of go-redis ignores contexts
	}
	o.Dialer, o.PushNotificationProcessor = l.dial, nil // each client has a processor of its own
	l.client = redis.NewClient(&o)
	return l
}

// checkAfter is how long a connection is kept without a look at whether the server has ended it. The
// pool looks when the connection is taken out. If a connection ends within that time, the request
// fails, and it isn't known whether it was executed.
const checkAfter = 100 * time.Millisecond

// refresh has the pool look at a connection that was not used for a while.
func (l *line) refresh(now time.Time) {
	idle := now.Sub(l.used)
	l.used = now
	if l.conn != nil && idle <= checkAfter {
		return
	}
	if l.conn != nil {
		_ = l.conn.Close() // gives the connection back to the pool
	}
	l.conn, l.proven = l.client.Conn(), false
}

// dial connects for the call that is under way.
func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	call := l.call
	if call == nil || call.interrupted {
		l.mu.Unlock()
		return nil, interruptedDial(network, context.Canceled)
	}
	ctx, l.stopDial = within(ctx, call.end)
	stop := l.stopDial
	l.mu.Unlock()
	defer stop()
	conn, err := l.dialer.DialContext(ctx, network, addr)
	if err != nil && ctx.Err() != nil && !Unsent(err) {
		err = interruptedDial(network, err) // a handshake's error doesn't say that nothing was sent
	}
	return conn, err
}

func interruptedDial(network string, err error) error {
	return &net.OpError{Op: "dial", Net: network, Err: err}
}

// interrupt ends a call, unless that has ended already.
func (l *line) interrupt(call *lineCall) {
	l.mu.Lock()
	current := l.call == call
	call.interrupted = true
	if current && l.stopDial != nil {
		l.stopDial()
	}
	l.mu.Unlock()
	if current {
		_ = l.client.Close() // also the connection that is in use
	}
}

// process makes a call. A call that is interrupted before it begins sends nothing.
func (l *line) process(call *lineCall, cmds []redis.Cmder) error {
	if len(cmds) == 1 {
		return l.conn.Process(call, cmds[0])
	}
	pipe := l.conn.Pipeline()
	_ = pipe.BatchProcess(call, cmds...)
	_, err := pipe.Exec(call)
	return err
}

func (l *line) begin(call *lineCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call = call
}

// finish reports whether the call was interrupted.
func (l *line) finish() (interrupted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	interrupted = l.call.interrupted
	l.call, l.stopDial = nil, nil
	return interrupted
}

// keeps reports whether the connection is as it was before the commands. go-redis returns the
// answers to what it sends to connect as those to the first command, so until a command has
// succeeded, an error may be such an answer. After READONLY go-redis closes the connection.
func (l *line) keeps(cmds []redis.Cmder) bool {
	failed := false
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			failed = true
			var reply redis.Error
			if !l.proven || !errors.As(err, &reply) || Says(err, "READONLY") {
				return false
			}
		}
	}
	l.proven = l.proven || !failed
	return true
}

// within is context.WithDeadline, for an end that may be zero.
func within(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end)
}

package main

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// dialFunc is the type of [net.Dialer.DialContext]. Tests give a function that dials through a
// network which they can disturb.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// client sends the requests of all callers over one connection. It knows nothing of locks.
type client struct {
	addr     string
	dial     dialFunc
	tasks    *kit.Tasks // the goroutines of connections, and dialling
	dialling kit.Flight[*conn]
	current  atomic.Pointer[conn] // nil before the first connection
}

// ioLimit bounds dialling, and each write: a write blocks when the kernel's buffer is full.
const ioLimit = time.Second

func newClient(addr string, dial dialFunc) *client {
	c := &client{addr: addr, dial: dial, tasks: kit.NewTasks()}
	c.dialling.Transient = func(error) bool { return true } // the server may be there by now
	return c
}

// answer is a reply, and what a caller must know of how it came.
type answer struct {
	reply
	sent   driver.Instant // before that copy of the request was sent which was answered
	resent bool           // an earlier copy may still arrive at the server
}

// do sends a request and waits for its reply, for up to limit. A request whose connection is broken
// is sent once again, on a new connection, also for up to limit: the caller must not pay for what a
// fault has left in this process. So every request must be harmless when it is executed twice, or
// late; the owner in each key makes it so.
//
// A context that ends costs its caller the answer, and nobody else anything: the connection stays.
func (c *client) do(ctx context.Context, limit time.Duration, r request) (a answer, err error) {
	for range 2 {
		a.reply, a.sent, err = c.once(ctx, limit, r)
		switch {
		case err == nil:
			return a, nil
		case ctx.Err() != nil:
			return a, context.Cause(ctx)
		case !errors.Is(err, errBroken):
			return a, kit.Overdue(err) // an error of a context would say that the caller gave up
		}
		a.resent = true
	}
	return a, err
}

func (c *client) once(ctx context.Context, limit time.Duration, r request) (reply, driver.Instant, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if conn := c.current.Load(); conn != nil {
		// Where all callers give up early, nobody sees the end of a limit.
		conn.leaveIfSilentSince(driver.Stamp().Add(-limit))
	}
	conn, err := c.connection(limited)
	if err != nil {
		return reply{}, 0, err
	}
	rep, sent, err := conn.ask(limited, r)
	if err != nil && limited.Err() != nil && ctx.Err() == nil && conn.leaveIfSilentSince(sent) {
		err = conn.why // a server that answers others is only slow: a second copy would make it slower
	}
	return rep, sent, err
}

// connection returns the connection, which is made once for all callers that find it broken.
func (c *client) connection(ctx context.Context) (*conn, error) {
	if conn := c.current.Load(); conn != nil && !conn.isBroken() {
		return conn, nil
	}
	return c.dialling.Do(ctx, c.tasks, c.connect)
}

func (c *client) connect(ctx context.Context) (*conn, error) {
	if conn := c.current.Load(); conn != nil && !conn.isBroken() {
		return conn, nil // somebody has just made it
	}
	limited, cancel := context.WithTimeout(ctx, ioLimit)
	defer cancel()
	stream, err := c.dial(limited, "tcp", c.addr)
	if err != nil {
		return nil, kit.Overdue(err)
	}
	conn := newConn(stream)
	if !c.tasks.Go(conn.read) || !c.tasks.Go(conn.write) {
		conn.leave(kit.ErrClosing)
		return nil, kit.ErrClosing
	}
	c.current.Store(conn)
	return conn, nil
}

// close ends all calls and goroutines.
func (c *client) close(ctx context.Context) error {
	c.tasks.Stop(kit.ErrClosing)
	return c.tasks.Wait(ctx)
}

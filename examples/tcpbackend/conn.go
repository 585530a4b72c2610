package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fencedlock/locker/driver"
)

// errBroken says that a connection ended, or was left, while a request was under way.
var errBroken = errors.New("the connection was broken")

// errSilent is why a connection was left.
var errSilent = errors.New("the server owes an answer and sends nothing")

// conn is one connection, shared by all calls.
type conn struct {
	stream net.Conn
	lines  chan []byte   // to write, which alone writes: a caller never waits for a full buffer
	broken chan struct{} // closed by leave: all calls end
	once   sync.Once
	why    error // matches errBroken; set before broken is closed

	mu      sync.Mutex
	last    uint64                // id of the last request
	waiting map[uint64]chan reply // calls, by the id of their request
	asked   driver.Instant        // since when the server owes an answer, and sends none; or Never
}

func newConn(stream net.Conn) *conn {
	return &conn{
		stream: stream, lines: make(chan []byte), broken: make(chan struct{}),
		waiting: make(map[uint64]chan reply), asked: driver.Never,
	}
}

// ask sends a request. The reply may come when ask has returned: then read finds nobody for its id.
func (c *conn) ask(ctx context.Context, r request) (rep reply, sent driver.Instant, err error) {
	mine := make(chan reply, 1) // read never waits for a caller
	sent = driver.Stamp()       // before the request: the server counts from some time after it
	id, forget := c.expect(mine, sent, r.Op != "wait")
	defer forget()
	r.ID = id
	line, _ := json.Marshal(r) // which numbers and strings always can
	line = append(line, '\n')
	for lines := c.lines; ; lines = nil {
		select {
		case lines <- line: // and then the reply
		case rep = <-mine:
			return rep, sent, nil
		case <-c.broken:
			return rep, sent, c.why
		case <-ctx.Done():
			return rep, sent, ctx.Err()
		}
	}
}

// expect gives a request its id. What comes soon is owed.
func (c *conn) expect(mine chan reply, sent driver.Instant, soon bool) (id uint64, forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id = c.last
	c.waiting[id] = mine
	if soon {
		c.asked = min(c.asked, sent)
	}
	return id, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, id)
	}
}

// read hands each reply to the call that waits for its id. A reply without one is late, and ends
// here: it must not be taken for the answer to somebody else's request.
func (c *conn) read(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { c.leave(context.Cause(ctx)) })() // the client is closed
	for replies := json.NewDecoder(c.stream); ; {
		var r reply
		if err := replies.Decode(&r); err != nil {
			c.leave(err) // which wakes all calls
			return
		}
		c.mu.Lock()
		if mine := c.waiting[r.ID]; mine != nil {
			delete(c.waiting, r.ID) // mine has room for one
			mine <- r
		}
		c.asked = driver.Never
		c.mu.Unlock()
	}
}

func (c *conn) write(context.Context) {
	for {
		select {
		case line := <-c.lines:
			_ = c.stream.SetWriteDeadline(time.Now().Add(ioLimit)) // a mistake of it fails the write
			if _, err := c.stream.Write(line); err != nil {
				c.leave(err) // half a line may have gone out: nothing can follow it
				return
			}
		case <-c.broken:
			return
		}
	}
}

// leaveIfSilentSince leaves a connection on which the server has owed an answer since t or longer.
// A network that loses everything breaks no connection for many minutes.
func (c *conn) leaveIfSilentSince(t driver.Instant) bool {
	c.mu.Lock()
	silent := c.asked <= t
	c.mu.Unlock()
	if silent {
		c.leave(errSilent)
	}
	return silent
}

func (c *conn) isBroken() bool {
	select {
	case <-c.broken:
		return true
	default:
		return false
	}
}

// leave ends the connection, and with it all calls.
func (c *conn) leave(why error) {
	c.once.Do(func() {
		c.why = fmt.Errorf("%w: %w", errBroken, why)
		close(c.broken)
		_ = c.stream.Close()
	})
}

package membackend

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Link is the network between a Server and a Locker that is made with [WithLink], with the faults
// of a network. It is a Link of package conformance. Several Lockers may share one, as the processes
// of one machine do. Its methods are safe for concurrent use. The zero Link is ready, and a Link needs no closing.
type Link struct {
	mu    sync.Mutex
	cut   struct{ there, back bool } // which directions are cut
	there time.Duration              // the delay of requests
	back  time.Duration              // the delay of their replies
	drops int
	conns map[*conn]struct{} // open ones, as far as their clients know
}

// NewLink returns a network without faults.
func NewLink() *Link { return new(Link) }

// Cut stops everything in both directions: requests, replies and pushes are lost. Neither end
// notices, so calls last until their time limit.
func (l *Link) Cut() { l.set(func() { l.cut.there, l.cut.back = true, true }) }

// CutRequests loses requests, and replies and pushes arrive. The service hears nothing of the
// Locker, but can notify it.
func (l *Link) CutRequests() { l.set(func() { l.cut.there = true }) }

// CutReplies loses replies and pushes, and requests are executed.
func (l *Link) CutReplies() { l.set(func() { l.cut.back = true }) }

// Heal ends Cut, CutRequests, CutReplies, Delay and Drop. What was lost stays lost, and what is late
// stays late.
func (l *Link) Heal() {
	l.set(func() {
		l.cut.there, l.cut.back = false, false
		l.there, l.back, l.drops = 0, 0, 0
	})
}

// Delay makes each request that is sent from now on reach the service later by there, and its reply
// reach the caller later by back; zeros end it. A request arrives even if its caller has given up by
// then, and later requests may overtake it when the delay was made shorter. A request or a reply is
// lost if the network is cut, or the connection is broken, when it arrives. Pushes are not delayed.
func (l *Link) Delay(there, back time.Duration) {
	l.set(func() { l.there, l.back = there, back })
}

// Drop loses the next n replies: the requests are executed, and their callers wait until their time
// limit. Pushes are no replies. 0 ends it.
func (l *Link) Drop(n int) { l.set(func() { l.drops = n }) }

// Sever breaks the connections, and both ends notice: calls under way fail at once, their requests
// are lost if they were not executed yet, and places in queues end with their connections. Locks
// stay. The next request makes a new connection; until then the service can't push anything.
func (l *Link) Sever() {
	l.mu.Lock()
	conns := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, c := range conns {
		c.client.server.breakConn(c)
		l.reset(c)
	}
}

func (l *Link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// client is a Locker's end of the network. It has one connection, made with the first request after
// the last one broke.
type client struct {
	server *Server
	link   *Link
	conn   *conn // guarded by link.mu; nil: none is open
}

// conn is a connection. Its two ends may notice at different times that it is broken.
type conn struct {
	client *client
	broken chan struct{} // closed when the client knows
	dead   bool          // the service knows; guarded by its mutex
}

// request is a message to the service and its reply.
type request struct {
	conn    *conn
	renewal bool
	goodbye bool                     // the client closes the connection: no reply, and nothing to run
	back    time.Duration            // the delay of the reply
	run     func(now driver.Instant) // executes it under the service's mutex, perhaps after its call
	done    chan error               // gets the reply: nil, or why it was not executed
}

var errReset = errors.New("connection was reset")

// call sends a request and waits for the reply, for as long as ctx and limit allow. Without an
// answer, nobody knows whether the request was or will be executed. What run writes may be read
// only after a nil error.
func (c *client) call(ctx context.Context, limit time.Duration, r *request) (answered bool, err error) {
	r.done = make(chan error, 1)
	c.send(r)
	select {
	case err := <-r.done: // without faults, the usual case
		return true, err
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-r.done:
		return true, err
	case <-r.conn.broken:
		return false, errReset
	case <-timer.C:
		return false, locker.ErrNoAnswer
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

func (c *client) send(r *request) {
	l := c.link
	l.mu.Lock()
	if c.conn == nil {
		c.conn = &conn{client: c, broken: make(chan struct{})}
		if l.conns == nil {
			l.conns = make(map[*conn]struct{})
		}
		l.conns[c.conn] = struct{}{}
	}
	r.conn = c.conn
	r.back = l.back
	cut, delay := l.cut.there, l.there
	l.mu.Unlock()
	switch {
	case cut:
	case delay > 0:
		time.AfterFunc(delay, func() {
			if l.carriesRequests() {
				c.server.arrive(r)
			}
		})
	default:
		c.server.arrive(r)
	}
}

// reply is called by the service, under its mutex.
func (r *request) reply(err error) {
	l := r.conn.client.link
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cut.back:
	case l.drops > 0:
		l.drops--
	case r.back > 0:
		time.AfterFunc(r.back, func() {
			if l.carriesReplies() {
				r.done <- err
			}
		})
	default:
		r.done <- err
	}
}

// push is called by the service, under its mutex. arrive happens at the client if the message gets
// there.
func (c *client) push(arrive func()) {
	c.link.mu.Lock()
	connected := c.conn != nil && !c.conn.dead && !c.link.cut.back
	c.link.mu.Unlock()
	if connected {
		arrive()
	}
}

func (l *Link) carriesRequests() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.cut.there
}

func (l *Link) carriesReplies() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.cut.back
}

// reset notifies the client that a connection is broken.
func (l *Link) reset(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.conns[c]; ok {
		delete(l.conns, c)
		c.client.conn = nil
		close(c.broken)
	}
}

// close ends the client's connection. The service notices that after everything that was sent
// before, and never on a network that is cut: there the places in queues stay until they expire.
func (c *client) close() {
	c.link.mu.Lock()
	connected := c.conn != nil
	c.link.mu.Unlock()
	if connected {
		r := &request{goodbye: true}
		c.send(r)
		c.link.reset(r.conn)
	}
}

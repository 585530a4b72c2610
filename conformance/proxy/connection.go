package proxy

import (
	"net"
	"sync"
	"time"
)

// connection is relayed: near is the end towards the client, far is the end towards the server.
type connection struct {
	network   *Network
	near      net.Conn
	far       net.Conn // nil until the server is reached; set under the network's mutex
	lossy     bool     // a reply is lost, and nothing more goes back; under the network's mutex
	lost      bool     // that reply has come; under the network's mutex
	forgotten bool     // nothing passes any more; under the network's mutex

	once   sync.Once
	broken chan struct{} // closed by reset
}

// chunk is what one read returned. Without data it is the end of the stream.
type chunk struct {
	data []byte
	due  time.Time // when it arrives
}

// begin returns a connection without a far end: what the client has while the server is dialled.
func (n *Network) begin(near net.Conn) *connection {
	c := &connection{network: n, near: near, broken: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.connections[c] = struct{}{}
	return c
}

// fail breaks a connection that gets no far end.
func (n *Network) fail(c *connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.reset()
	delete(n.connections, c)
}

// relay carries data between two ends until both directions have ended or the connection is broken.
func (n *Network) relay(c *connection, far net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.Err() != nil {
		c.reset()
	}
	select {
	case <-c.broken:
		reset(far)
		delete(n.connections, c)
		return
	default:
		c.far = far
	}
	var directions sync.WaitGroup
	directions.Go(func() { c.carry(c.near, far, false) })
	directions.Go(func() { c.carry(far, c.near, true) })
	n.relays.Go(func() {
		directions.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.connections, c)
		_ = c.near.Close()
		_ = far.Close()
	})
}

// carry is one direction. It reads on while what was read waits for its time, so that the sender
// notices nothing.
func (c *connection) carry(from, to net.Conn, reply bool) {
	underway := make(chan chunk, 1024)
	var reading sync.WaitGroup
	reading.Go(func() { c.read(from, reply, underway) })
	defer reading.Wait()
	for next := range underway {
		switch {
		case !c.until(next.due, reply):
			return
		case c.isForgotten():
			continue // it was on its way
		case next.data == nil:
			_ = to.(*net.TCPConn).CloseWrite()
			continue // there is nothing more
		}
		if _, err := to.Write(next.data); err != nil && !c.isForgotten() {
			c.reset() // the receiver is gone, and the sender must see that
			return
		}
	}
}

// read reads until the stream ends, and queues what arrives.
func (c *connection) read(from net.Conn, reply bool, underway chan<- chunk) {
	defer close(underway)
	for {
		buf := make([]byte, 32<<10)
		size, err := from.Read(buf)
		if size > 0 && !c.queue(buf[:size], reply, underway) {
			return
		}
		if err != nil {
			c.queue(nil, reply, underway)
			return
		}
	}
}

// queue queues data unless the network loses it. It returns false when the connection is broken.
func (c *connection) queue(data []byte, reply bool, underway chan<- chunk) bool {
	due, ok := c.network.admit(c, reply, data)
	if !ok {
		return true
	}
	select {
	case underway <- chunk{data, due}:
		return true
	case <-c.broken:
		return false
	}
}

// until waits until due and for a direction that isn't cut. It returns false when the connection is
// broken.
func (c *connection) until(due time.Time, reply bool) bool {
	if wait := time.Until(due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.broken:
			return false
		}
	}
	select {
	case <-c.network.passable(reply):
		return true
	case <-c.broken:
		return false
	}
}

func (c *connection) isForgotten() bool {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	return c.forgotten
}

// reset breaks the connection at both ends, visibly.
func (c *connection) reset() {
	c.once.Do(func() {
		close(c.broken)
		reset(c.near)
		if c.far != nil {
			reset(c.far)
		}
	})
}

// reset closes one end in such a way that the peer reads an error.
func reset(end net.Conn) {
	_ = end.(*net.TCPConn).SetLinger(0)
	_ = end.Close()
}

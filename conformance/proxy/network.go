package proxy

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"
)

// Network relays connections. Its methods may be called at any time, from any goroutine.
type Network struct {
	listener net.Listener // for the near ends of Dial
	dialing  sync.Mutex   // pairs a connection that was dialled with the one that was accepted
	relays   sync.WaitGroup

	life context.Context // ended by Close
	end  context.CancelFunc

	mu          sync.Mutex
	connections map[*connection]struct{}
	forwards    []net.Listener
	requests    direction
	replies     direction
	there, back time.Duration
	drop        int
	dropReplyTo []byte // what the request contains whose reply gets lost
	lost        int    // connections that have lost a reply
}

// T is the part of testing.TB that Start uses.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start returns a network without a disturbance, which is closed when the test or case ends.
func Start(t T) *Network {
	t.Helper()
	n, err := New()
	if err != nil {
		t.Fatalf("no proxy: %v", err)
	}
	t.Cleanup(n.Close)
	return n
}

// New returns a network without a disturbance. Close ends it.
func New() (*Network, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &Network{listener: listener, connections: make(map[*connection]struct{})}
	n.requests.open, n.replies.open = make(chan struct{}), make(chan struct{})
	close(n.requests.open)
	close(n.replies.open)
	n.life, n.end = context.WithCancel(context.Background())
	return n, nil
}

// Dial connects to a server through the network, by TCP. ctx bounds the dialling, which hangs while
// the network is cut. If the server refuses the connection, so does Dial.
func (n *Network) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	far, err := n.dialServer(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	client, near, err := n.pair(ctx)
	if err != nil {
		_ = far.Close()
		return nil, err
	}
	n.relay(n.begin(near), far)
	return client, nil
}

// Forward listens on a port of this machine and returns its address. Connections to that address go
// through the network to the server at addr, for clients that can't be given a function that dials.
// While the network is cut, a connection seems to be made, and nothing passes. A connection that
// the server refuses is broken.
func (n *Network) Forward(addr string) (local string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.Err() != nil {
		_ = listener.Close()
		return "", net.ErrClosed
	}
	n.forwards = append(n.forwards, listener)
	n.relays.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // closed
			}
			n.relays.Go(func() { n.forward(near, addr) })
		}
	})
	return listener.Addr().String(), nil
}

// forward relays between a connection that was accepted and the server.
func (n *Network) forward(near net.Conn, addr string) {
	c := n.begin(near)
	far, err := n.dialServer(n.life, "tcp", addr)
	if err != nil {
		n.fail(c)
		return
	}
	n.relay(c, far)
}

// dialServer makes the far end of a connection. It waits while the network is cut, in whatever
// direction.
func (n *Network) dialServer(ctx context.Context, network, addr string) (net.Conn, error) {
	for _, replies := range []bool{false, true} {
		select {
		case <-n.passable(replies):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-n.life.Done():
			return nil, net.ErrClosed
		}
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// pair returns the two ends of a connection within this process. A dial that was given up may have
// left its connection in the listener's queue.
func (n *Network) pair(ctx context.Context) (client, near net.Conn, err error) {
	n.dialing.Lock()
	defer n.dialing.Unlock()
	var d net.Dialer
	if client, err = d.DialContext(ctx, "tcp", n.listener.Addr().String()); err != nil {
		return nil, nil, err
	}
	for {
		if near, err = n.listener.Accept(); err != nil {
			_ = client.Close()
			return nil, nil, err
		}
		if near.RemoteAddr().String() == client.LocalAddr().String() {
			return client, near, nil
		}
		_ = near.Close()
	}
}

// passable returns a channel that is closed while that direction isn't cut, or when that cut ends.
func (n *Network) passable(replies bool) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if replies {
		return n.replies.open
	}
	return n.requests.open
}

// Close breaks all connections, and returns when all goroutines of the network have ended. It may
// be called twice.
func (n *Network) Close() {
	n.mu.Lock()
	n.end()
	for _, listener := range append(n.forwards, n.listener) {
		_ = listener.Close()
	}
	n.mu.Unlock()
	n.Sever()
	n.relays.Wait()
}

func (n *Network) severIf(cond func(*connection) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.connections {
		if cond(c) {
			c.reset()
		}
	}
}

// admit decides about what a client or a server has just sent: when it arrives, and whether it
// arrives at all.
func (n *Network) admit(c *connection, reply bool, data []byte) (due time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.forgotten {
		return time.Time{}, false
	}
	if !reply {
		if len(n.dropReplyTo) > 0 && bytes.Contains(data, n.dropReplyTo) {
			n.dropReplyTo, c.lossy = nil, true
		}
		return time.Now().Add(n.there), true
	}
	if n.drop > 0 && !c.lossy && len(data) > 0 {
		n.drop--
		c.lossy = true
	}
	if c.lossy && !c.lost && len(data) > 0 {
		c.lost = true
		n.lost++
	}
	return time.Now().Add(n.back), !c.lossy
}

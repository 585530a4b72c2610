// Package proxy is a network between one client and its servers that can be disturbed.
//
// The client dials through [Network.Dial]. Each connection is a real one on both sides, with a relay of this process
// between them. It does by itself what the suite asks of a link (conformance.Link). Proxies that work by connection
// alone don't do: a delayed request must stay delayed when the network is well again, because that is how a late request
// meets its own clean-up; a cut must leave both ends believing in their connection; and a single reply must get lost
// although its request was carried out.
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
	listener net.Listener
	dialing  sync.Mutex // pairs a connection that was dialled with the one that was accepted
	relays   sync.WaitGroup

	mu          sync.Mutex
	wires       map[*wire]struct{}
	open        chan struct{} // closed while the network isn't cut
	there, back time.Duration
	drop        int
	doomed      []byte        // what the request contains whose reply gets lost
	closed      chan struct{} // closed by Close
}

// New returns a network without a disturbance. It is ended by Close.
func New() (*Network, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &Network{listener: listener, wires: make(map[*wire]struct{}), open: make(chan struct{}), closed: make(chan struct{})}
	close(n.open)
	return n, nil
}

// Dial connects to a server through the network, by TCP. ctx bounds the dialling, which hangs while the network is cut.
// What the server refuses is refused at once.
func (n *Network) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	select {
	case <-n.passage():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-n.closed:
		return nil, net.ErrClosed
	}
	var d net.Dialer
	far, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	client, near, err := n.pair(ctx)
	if err != nil {
		_ = far.Close()
		return nil, err
	}
	n.relay(near, far)
	return client, nil
}

// pair returns the two ends of a connection within this process.
func (n *Network) pair(ctx context.Context) (client, near net.Conn, err error) {
	n.dialing.Lock()
	defer n.dialing.Unlock()
	var d net.Dialer
	if client, err = d.DialContext(ctx, "tcp", n.listener.Addr().String()); err != nil {
		return nil, nil, err
	}
	if near, err = n.listener.Accept(); err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return client, near, nil
}

// passage is closed while nothing is cut.
func (n *Network) passage() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open
}

// Cut lets nothing through in either direction from now on. No connection ends, and none is made. What is sent
// meanwhile, the end of a connection included, comes through after Heal, as TCP sends it again and again.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.open:
		n.open = make(chan struct{})
	default: // is cut
	}
}

// Drop loses the next count replies; what a server sends by itself counts as one, and so do replies that come together.
// The requests are carried out. A stream can't lose a piece and go on: nothing more comes on that connection, and Heal
// breaks it.
func (n *Network) Drop(count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop = count
}

// DropReplyTo loses the reply to the next request that contains text, in the same way.
func (n *Network) DropReplyTo(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.doomed = []byte(text)
}

// Delay makes what is sent from now on arrive later, requests by there and replies by back. What is under way already,
// also when Heal comes, keeps its time.
func (n *Network) Delay(there, back time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.there, n.back = there, back
}

// Sever breaks all connections with a reset, at both ends. What was under way is lost. New connections work.
func (n *Network) Sever() { n.severIf(func(*wire) bool { return true }) }

// Heal ends Cut, Drop, DropReplyTo and Delay.
func (n *Network) Heal() {
	n.mu.Lock()
	n.drop, n.doomed, n.there, n.back = 0, nil, 0, 0
	select {
	case <-n.open:
	default:
		close(n.open)
	}
	n.mu.Unlock()
	n.severIf(func(w *wire) bool { return w.lossy })
}

// Close breaks all connections, and returns when nothing of the network runs any more.
func (n *Network) Close() {
	n.mu.Lock()
	select {
	case <-n.closed:
	default:
		close(n.closed)
	}
	n.mu.Unlock()
	_ = n.listener.Close()
	n.Sever()
	n.relays.Wait()
}

func (n *Network) severIf(cond func(*wire) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.wires {
		if cond(w) {
			w.reset()
		}
	}
}

// admit decides over what a client or a server has just sent: when it may go on, and whether it goes on at all.
func (n *Network) admit(w *wire, reply bool, data []byte) (due time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !reply {
		if len(n.doomed) > 0 && bytes.Contains(data, n.doomed) {
			n.doomed, w.lossy = nil, true
		}
		return time.Now().Add(n.there), true
	}
	if n.drop > 0 && !w.lossy && len(data) > 0 {
		n.drop--
		w.lossy = true
	}
	return time.Now().Add(n.back), !w.lossy
}

//go:build unix

package zk

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"sync/atomic"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/zkbackend"
)

// zkHalfDeaf is a network to servers that answer only a part of the requests.
type zkHalfDeaf struct {
	greetings atomic.Bool // of each connection only the answer to the request to connect arrives
	reads     atomic.Bool // writes are not executed, and nothing arrives on a connection on which one was sent
}

func (n *zkHalfDeaf) heal() {
	n.greetings.Store(false)
	n.reads.Store(false)
}

func (n *zkHalfDeaf) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &zkHalfDeafConn{Conn: conn, network: n}, nil
}

type zkHalfDeafConn struct {
	net.Conn
	network   *zkHalfDeaf
	connected bool        // the request to connect was sent
	wrote     atomic.Bool // and a write, while reads alone were answered
	arrived   int         // bytes
}

// Write gets one packet: length, number, operation. The request that ends a session is none of the
// writes here.
func (c *zkHalfDeafConn) Write(data []byte) (int, error) {
	const create, remove, set, check, multi, createContainer = 1, 2, 5, 13, 14, 19
	if c.connected && len(data) >= 12 && c.network.reads.Load() &&
		slices.Contains([]uint32{create, remove, set, check, multi, createContainer}, binary.BigEndian.Uint32(data[8:])) {
		c.wrote.Store(true)
		return len(data), nil // else a removal would be executed, and let the rival in
	}
	c.connected = true
	return c.Conn.Write(data)
}

func (c *zkHalfDeafConn) Read(data []byte) (int, error) {
	const greeting = 4 + 37 // bytes
	for {
		n, err := c.Conn.Read(data)
		if err != nil {
			return n, err
		}
		before := c.arrived
		c.arrived += n
		switch {
		case c.wrote.Load() && c.network.reads.Load():
		case !c.network.greetings.Load():
			return n, nil
		case before < greeting:
			return min(n, greeting-before), nil
		}
	}
}

func (s *Service) onlyGreetings(t conformance.T, _ *conformance.Harness) {
	n := new(zkHalfDeaf)
	s.halfDeaf(t, n, &n.greetings)
}

func (s *Service) noWrites(t conformance.T, _ *conformance.Harness) {
	n := new(zkHalfDeaf)
	s.halfDeaf(t, n, &n.reads)
}

func (s *Service) halfDeaf(t conformance.T, n *zkHalfDeaf, only *atomic.Bool) {
	rival := step.CloseAtEnd(t, s.Open(t))
	l := step.CloseAtEnd(t, s.Through(t, n.dial, s.Addrs(), zkbackend.WithDefaultTTL(TTL)))
	t.Cleanup(n.heal) // before the Locker is closed
	x := s.silence(t, l, rival, func() { only.Store(true) })
	n.heal()
	x.heard(t, s, l)
}

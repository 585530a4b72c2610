//go:build unix

package pg

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// cutInMessage cuts the network while a request is sent: after its first byte, in the middle,
// before the last byte, and before the last message of five bytes, which ends a request in the
// extended protocol. The request is the next renewal, which is a statement, or another acquisition,
// which is two function calls: then it is cut in the middle of the first one, between both, and in
// the middle of the second one.
func (s *Service) cutInMessage(t conformance.T, _ *conformance.Harness) {
	var cost silence
	var try []func(int) error
	const statement, functions = 'Q', 'F'
	const firstCall = 29 // bytes, of pg_try_advisory_lock
	for _, at := range []struct {
		kind byte
		sent func(int) int
	}{
		{statement, func(int) int { return 1 }},
		{statement, func(size int) int { return size / 2 }},
		{statement, func(size int) int { return size - 5 }},
		{statement, func(size int) int { return size - 1 }},
		{functions, func(int) int { return firstCall / 2 }},
		{functions, func(int) int { return firstCall }},
		{functions, func(int) int { return firstCall + 10 }},
		{functions, func(size int) int { return size - 1 }},
	} {
		link := proxy.Start(t)
		var armed atomic.Bool
		cut := make(chan struct{}, 1)
		l := s.dialled(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := link.Dial(ctx, network, addr)
			return &halfConn{conn, func(b []byte) int {
				if len(b) <= 5 || b[0] != at.kind {
					return len(b)
				}
				n := at.sent(len(b))
				if n >= len(b) || !armed.CompareAndSwap(true, false) { // it may be a shorter call than the one that is meant
					return len(b)
				}
				return n
			}, func() { link.Cut(); cut <- struct{}{} }}, err
		})
		step.CloseAtEnd(t, l)
		t.Cleanup(link.Heal)
		other := step.CloseAtEnd(t, s.open(t))
		try = append(try, func(int) error {
			return cost.silentHolder(t, l, other, link, func() {
				armed.Store(true)
				if at.kind == functions {
					go func() { _, _ = locker.TryAcquire(t.Context(), l, step.LockName(t), locker.WithTTL(itest.ShortTTL)) }() // fails
				}
				select {
				case <-cut:
				case <-time.After(step.Limit): // function calls may be off, because connections have not answered them in time
					t.Errorf("no message of kind %q was sent", at.kind)
				}
			})
		})
	}
	cost.tries(t, rounds(t, 1, 12), try)
}

// halfConn is a connection that is cut after a part of what is written.
type halfConn struct {
	net.Conn
	part func(b []byte) int
	cut  func()
}

func (c *halfConn) Write(b []byte) (int, error) {
	n := c.part(b)
	if n == len(b) {
		return c.Conn.Write(b)
	}
	if n, err := c.Conn.Write(b[:n]); err != nil {
		return n, err
	}
	time.Sleep(20 * time.Millisecond) // if that is too short for the way to the server, this is a cut between two messages
	c.cut()
	rest, err := c.Conn.Write(b[n:])
	return n + rest, err
}

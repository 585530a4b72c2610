//go:build unix

package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// zkSpy knows the session of a client, so that the test can end the session.
type zkSpy struct {
	mu       sync.Mutex
	live     map[*zkSpiedConn][]byte // by connection, the answer to its request to connect: version, timeout, session, password
	greeting []byte                  // the last one that was used
}

func (s *zkSpy) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &zkSpiedConn{Conn: conn, spy: s}, nil
}

type zkSpiedConn struct {
	net.Conn
	spy  *zkSpy
	read []byte
}

const zkGreeting = 4 + 4 + 4 + 8 + 4 + 16 // with its length

func (c *zkSpiedConn) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if len(c.read) < zkGreeting {
		c.read = append(c.read, data[:n]...)
		if len(c.read) >= zkGreeting {
			c.spy.mu.Lock()
			defer c.spy.mu.Unlock()
			if c.spy.live == nil {
				c.spy.live = make(map[*zkSpiedConn][]byte)
			}
			c.spy.live[c] = c.read[:zkGreeting]
		}
	}
	return n, err
}

// Close forgets the greeting: sessions that a Locker opens to find something out end at once.
func (c *zkSpiedConn) Close() error {
	c.spy.mu.Lock()
	defer c.spy.mu.Unlock()
	delete(c.spy.live, c)
	return c.Conn.Close()
}

// end connects to a server as the client, and closes the session. The client may take it back
// before it is closed; then it is tried again.
func (s *zkSpy) end(ctx context.Context, addr string) error {
	for {
		ended, err := s.tryEnd(ctx, addr)
		if ended || ctx.Err() != nil {
			return err
		}
	}
}

func (s *zkSpy) tryEnd(ctx context.Context, addr string) (ended bool, err error) {
	conn, expired, err := s.begin(ctx, addr)
	if err != nil || expired {
		return expired, err
	}
	defer conn.Close()
	_, err = zkPacket(conn)
	return err == nil, err
}

// begin connects to a server as the client, and asks it to close the session, on the connection that it
// returns. expired: there is no such session any more, and no connection.
func (s *zkSpy) begin(ctx context.Context, addr string) (conn net.Conn, expired bool, err error) {
	s.mu.Lock()
	for _, greeting := range s.live {
		s.greeting = greeting
	}
	g := s.greeting
	s.mu.Unlock()
	if g == nil {
		return nil, false, errors.New("the client has not been greeted")
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if conn == nil {
			_ = c.Close()
		}
	}()
	_ = c.SetDeadline(time.Now().Add(itest.ShortWait))
	connect := binary.BigEndian.AppendUint32(nil, zkGreeting-4+8)
	connect = append(connect, g[4:8]...)              // version
	connect = append(connect, 0, 0, 0, 0, 0, 0, 0, 0) // last zxid
	connect = append(connect, g[8:]...)               // timeout, session, password
	if _, err = c.Write(connect); err != nil {
		return nil, false, err
	}
	answer, err := zkPacket(c)
	if err != nil {
		return nil, false, err
	}
	if session := binary.BigEndian.Uint64(answer[8:]); session == 0 {
		return nil, true, nil
	}
	if _, err = c.Write([]byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}); err != nil { // close
		return nil, false, err
	}
	return c, false, nil
}

// zkPacket reads a packet of a server's, without its length.
func zkPacket(r io.Reader) ([]byte, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(r, size); err != nil {
		return nil, err
	}
	packet := make([]byte, binary.BigEndian.Uint32(size))
	_, err := io.ReadFull(r, packet)
	return packet, err
}

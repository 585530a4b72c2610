//go:build unix

package integration

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// zkSpy knows the session of a client, so that it can be ended behind its back.
type zkSpy struct {
	mu       sync.Mutex
	greeting []byte // the last answer to a request to connect: version, timeout, session, password
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
			c.spy.greeting = c.read[:zkGreeting]
		}
	}
	return n, err
}

// end connects to a server as the client, and closes the session.
func (s *zkSpy) end(ctx context.Context, addr string) error {
	s.mu.Lock()
	g := s.greeting
	s.mu.Unlock()
	if g == nil {
		return errors.New("the client has not been greeted")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(soon))
	connect := binary.BigEndian.AppendUint32(nil, zkGreeting-4+8)
	connect = append(connect, g[4:8]...)              // version
	connect = append(connect, 0, 0, 0, 0, 0, 0, 0, 0) // last zxid
	connect = append(connect, g[8:]...)               // timeout, session, password
	if _, err := conn.Write(connect); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, make([]byte, zkGreeting)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}); err != nil { // close
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}

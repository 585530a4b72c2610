package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance/proxy"
)

// server hands out the connections that are made to it.
type server struct {
	net.Listener
	accepted chan net.Conn
}

func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{l, make(chan net.Conn, 10)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.accepted <- c
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
		close(s.accepted)
		for c := range s.accepted {
			c.Close()
		}
	})
	return s
}

func newNetwork(t *testing.T) *proxy.Network {
	t.Helper()
	return proxy.Start(t)
}

// connect returns both ends of a connection through the network.
func connect(t *testing.T, n *proxy.Network, s *server) (client, far end) {
	t.Helper()
	c, err := n.Dial(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatalf("Dial = %v", err)
	}
	client, far = end{t, c}, end{t, <-s.accepted}
	t.Cleanup(func() {
		client.Close()
		far.Close()
	})
	return client, far
}

// end is one end of a connection, with checks of what arrives there.
type end struct {
	t *testing.T
	net.Conn
}

func (e end) send(text string) {
	e.t.Helper()
	if _, err := io.WriteString(e, text); err != nil {
		e.t.Fatalf("Write = %v", err)
	}
}

func (e end) gets(text string) {
	e.t.Helper()
	_ = e.SetReadDeadline(time.Now().Add(soon))
	got := make([]byte, len(text))
	if _, err := io.ReadFull(e, got); err != nil || string(got) != text {
		e.t.Fatalf("what arrived is %q, %v; want %q", got, err, text)
	}
}

// ends reads the end of the stream, or the error that broke it, and nothing before that.
func (e end) ends(want error) {
	e.t.Helper()
	_ = e.SetReadDeadline(time.Now().Add(soon))
	if n, err := e.Read(make([]byte, 10)); n != 0 || !errors.Is(err, want) {
		e.t.Fatalf("Read = %d, %v, want %v", n, err, want)
	}
}

func (e end) getsNothing() {
	e.t.Helper()
	_ = e.SetReadDeadline(time.Now().Add(while))
	got := make([]byte, 100)
	if n, err := e.Read(got); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		e.t.Fatalf("what arrived is %q, %v; want nothing, and a connection that is open", got[:n], err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

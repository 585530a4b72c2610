package proxy_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// A client that can only be given an address reaches its server through a port of the network.
func TestForward(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	local, err := n.Forward(s.Addr().String())
	if err != nil {
		t.Fatalf("Forward = %v", err)
	}
	dial := func() end {
		t.Helper()
		c, err := net.Dial("tcp", local)
		if err != nil {
			t.Fatalf("Dial = %v", err)
		}
		t.Cleanup(func() { c.Close() })
		return end{t, c}
	}
	client, far := dial(), end{t, <-s.accepted}
	client.send("ask")
	far.gets("ask")
	n.Drop(1)
	far.send("lost")
	wantLost(t, n, 1)
	client.getsNothing()
	n.Heal()
	client.ends(syscall.ECONNRESET)

	n.Cut()
	client = dial()
	client.send("while the network is cut")
	select {
	case c := <-s.accepted:
		c.Close()
		t.Error("a connection was made through a network that is cut")
	case <-time.After(while):
	}
	n.Heal()
	far = end{t, <-s.accepted}
	far.gets("while the network is cut")

	s.Close()
	// The connection is broken at once, or a little later.
	if c, err := net.Dial("tcp", local); err == nil {
		end{t, c}.ends(syscall.ECONNRESET)
		c.Close()
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Dial to a server that has gone = %v, want that the connection is reset", err)
	}
	n.Close()
	if c, err := net.Dial("tcp", local); err == nil {
		c.Close()
		t.Error("after Close, Dial = nil, want that it is refused")
	}
	if _, err := n.Forward(s.Addr().String()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Forward after Close = %v, want ErrClosed", err)
	}
}

package proxy_test

import (
	"net"
	"syscall"
	"testing"
)

func TestCloseBreaksAll(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	client, far := connect(t, n, s)
	n.Cut()
	client.send("never arrives")
	n.Close()
	n.Close()
	client.ends(syscall.ECONNRESET)
	far.ends(syscall.ECONNRESET)
	if c, err := n.Dial(t.Context(), "tcp", s.Addr().String()); err == nil {
		t.Errorf("Dial after Close = %v, want an error", c)
	}
}

// Close doesn't wait for a connection that waits for the end of a cut.
func TestCloseWhileCut(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	local, err := n.Forward(s.Addr().String())
	if err != nil {
		t.Fatalf("Forward = %v", err)
	}
	n.Cut()
	c, err := net.Dial("tcp", local)
	if err != nil {
		t.Fatalf("Dial = %v", err)
	}
	defer c.Close()
	n.Close()
	end{t, c}.ends(syscall.ECONNRESET)
}

package proxy_test

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance/proxy"
)

func TestForget(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	client, far := connect(t, n, s)
	n.Forget()
	client.send("ask")
	far.send("push")
	far.getsNothing()
	client.getsNothing()

	newer, newerFar := connect(t, n, s)
	newer.send("ask")
	newerFar.gets("ask")
	newerFar.send("answer")
	newer.gets("answer")

	n.Forget()
	newer.send("ask")
	newerFar.getsNothing()
}

// The end of a connection is a message, too, and so is the reset of an end that was killed.
func TestForgottenEndsAreNotPassedOn(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	for what, end := range map[string]func(net.Conn){
		"is closed": func(c net.Conn) { c.Close() },
		"is reset": func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		},
	} {
		t.Run("the client "+what, func(t *testing.T) {
			client, far := connect(t, n, s)
			n.Forget()
			end(client.Conn)
			far.getsNothing()
			far.send("to nobody") // a kernel that knows no such connection would answer with a reset
			far.getsNothing()
		})
		t.Run("the server "+what, func(t *testing.T) {
			client, far := connect(t, n, s)
			n.Forget()
			end(far.Conn)
			client.getsNothing()
			client.send("to nobody")
			client.getsNothing()
		})
	}
}

// What was sent before, and waits for its time, for the end of a cut, or for room in a buffer, is lost with
// the connection.
func TestForgetLosesWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	t.Run("delayed", func(t *testing.T) {
		t.Parallel()
		const delay = 2 * time.Second // it must not be over before Forget
		n, s := newNetwork(t), newServer(t)
		client, far := connect(t, n, s)
		sendDelayed(t, n, client, "ask", delay)
		n.Delay(delay, delay)
		far.send("push")
		client.getsNothing()
		n.Forget()
		for forgotten := time.Now(); time.Since(forgotten) < delay; {
			far.getsNothing()
			client.getsNothing()
		}
	})
	t.Run("cut", func(t *testing.T) {
		t.Parallel()
		n, s := newNetwork(t), newServer(t)
		client, far := connect(t, n, s)
		n.Cut()
		client.send("ask")
		client.Close()
		far.getsNothing()
		n.Forget()
		n.Heal()
		far.ends(syscall.ECONNRESET)
	})
	t.Run("blocked", func(t *testing.T) {
		t.Parallel()
		n, s := newNetwork(t), newServer(t)
		client, far := connect(t, n, s)
		_ = far.SetWriteDeadline(time.Now().Add(4 * while))
		if sent, err := far.Write(make([]byte, 1<<28)); !isTimeout(err) {
			t.Fatalf("Write to nobody who reads = %d, %v, want a timeout", sent, err)
		}
		n.Forget()
		_ = client.Conn.(*net.TCPConn).SetLinger(0)
		client.Close()
		far.getsNothing()
	})
}

// Nothing brings back what was forgotten. Afterwards both ends know.
func TestForgottenIsBroken(t *testing.T) {
	for what, end := range map[string]func(*proxy.Network){
		"Heal": (*proxy.Network).Heal, "Sever": (*proxy.Network).Sever, "Close": (*proxy.Network).Close,
	} {
		t.Run(what, func(t *testing.T) {
			n, s := newNetwork(t), newServer(t)
			client, far := connect(t, n, s)
			n.Forget()
			client.send("lost")
			far.send("lost")
			end(n)
			client.ends(syscall.ECONNRESET)
			far.ends(syscall.ECONNRESET)
		})
	}
}

// A connection that was forgotten loses no reply in the sense of Drop: the next one that works does.
func TestForgottenIsNotDropped(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	_, forgotten := connect(t, n, s)
	n.Forget()
	n.Drop(1)
	forgotten.send("lost")
	client, far := connect(t, n, s)
	far.send("lost")
	wantLost(t, n, 1)
	client.getsNothing()
}

// A client has its connection to Forward's address before the server is reached.
func TestForgetWhileTheServerIsDialled(t *testing.T) {
	for what, breaks := range map[string]func(*proxy.Network){"Heal": (*proxy.Network).Heal, "Sever": (*proxy.Network).Sever} {
		t.Run(what, func(t *testing.T) {
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
			client := end{t, c}
			client.send("lost")
			waitFor(t, "connection", func() bool { return n.Connections() == 1 })
			n.Forget()
			breaks(n)
			client.ends(syscall.ECONNRESET)
			n.Heal()
			far := end{t, <-s.accepted}
			defer far.Close()
			far.ends(syscall.ECONNRESET)
		})
	}
}

// A client that has an address gets a new connection at that address.
func TestForgetForwarded(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	local, err := n.Forward(s.Addr().String())
	if err != nil {
		t.Fatalf("Forward = %v", err)
	}
	dial := func() (client, far end) {
		t.Helper()
		c, err := net.Dial("tcp", local)
		if err != nil {
			t.Fatalf("Dial = %v", err)
		}
		client, far = end{t, c}, end{t, <-s.accepted}
		t.Cleanup(func() {
			client.Close()
			far.Close()
		})
		client.send("ask")
		far.gets("ask")
		return client, far
	}
	client, far := dial()
	n.Forget()
	client.send("lost")
	far.getsNothing()
	dial()
}

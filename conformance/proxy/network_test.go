package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
)

var _ conformance.OneWayLink = (*proxy.Network)(nil)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	soon  = 5 * time.Second       // bounds what must happen
	while = 50 * time.Millisecond // how long is looked for what must not happen
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

func TestRelays(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	client, far := connect(t, n, s)
	client.send("ask")
	far.gets("ask")
	far.send("answer")
	client.gets("answer")

	client.Close()
	far.ends(io.EOF)

	client, far = connect(t, n, s)
	far.send("bye")
	far.Close()
	client.gets("bye")
	client.ends(io.EOF)
}

// TestDialGivenUp: a dial whose context ends at the wrong moment leaves a connection in the
// listener's queue, which must not be taken for the next one.
func TestDialGivenUp(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	first, _ := connect(t, n, s)
	stray, err := net.Dial("tcp", first.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stray.Close()
	client, far := connect(t, n, s)
	client.send("request")
	far.gets("request")
	far.send("reply")
	client.gets("reply")
}

func TestRefusedIsRefused(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	s.Close()
	if c, err := n.Dial(t.Context(), "tcp", s.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("Dial = %v, %v, want that it is refused", c, err)
	}
}

// While one direction is cut, the other carries what is sent. No new connection is made.
func TestCutOneWay(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	client, far := connect(t, n, s)
	dialHangs := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), while)
		defer cancel()
		if c, err := n.Dial(ctx, "tcp", s.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Dial = %v, %v, want that it hangs until its context ends", c, err)
		}
	}

	n.CutRequests()
	client.send("ask")
	far.send("push")
	client.gets("push")
	far.getsNothing()
	dialHangs()
	n.Heal()
	far.gets("ask")

	n.CutReplies()
	client.send("ask")
	far.gets("ask")
	far.send("answer")
	client.getsNothing()
	dialHangs()
	n.Heal()
	client.gets("answer")
}

func TestCut(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	client, far := connect(t, n, s)
	leaver, left := connect(t, n, s)
	n.Cut()
	n.Cut()
	client.send("ask")
	far.send("push")
	leaver.send("last words")
	leaver.Close()
	far.getsNothing()
	client.getsNothing()
	left.getsNothing()

	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	if c, err := n.Dial(ctx, "tcp", s.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Dial = %v, %v, want that it hangs until its context ends", c, err)
	}

	n.Heal()
	far.gets("ask")
	client.gets("push")
	left.gets("last words")
	left.ends(io.EOF)
	client, far = connect(t, n, s)
	client.send("again")
	far.gets("again")
}

func TestDrop(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	client, far := connect(t, n, s)
	other, otherFar := connect(t, n, s)
	n.Drop(1)
	client.send("ask")
	far.gets("ask")
	far.send("lost")
	client.getsNothing()
	far.send("lost as well: a stream has no gaps")
	client.getsNothing()
	otherFar.send("one only")
	other.gets("one only")
	client.send("the way there works")
	far.gets("the way there works")

	n.Heal()
	client.ends(syscall.ECONNRESET)
	far.ends(syscall.ECONNRESET)
	otherFar.send("stands")
	other.gets("stands")
}

func TestDropReplyTo(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	client, far := connect(t, n, s)
	chosen, chosenFar := connect(t, n, s)
	n.DropReplyTo("acquire")
	client.send("release")
	far.gets("release")
	far.send("released")
	client.gets("released")
	chosen.send("please acquire this")
	chosenFar.gets("please acquire this")
	chosenFar.send("granted")
	chosen.getsNothing()
	client.send("acquire again")
	far.gets("acquire again")
	far.send("granted")
	client.gets("granted")
}

func TestDelay(t *testing.T) {
	const delay = 4 * while
	n, s := newNetwork(t), newServer(t)
	client, far := connect(t, n, s)
	n.Delay(delay, 0)
	sent := time.Now()
	client.send("late")
	far.send("in time")
	client.gets("in time")
	far.getsNothing()

	n.Heal() // what is under way stays late
	client.send(", then in time")
	client.Close()
	other, otherFar := connect(t, n, s)
	other.send("overtakes")
	otherFar.gets("overtakes")
	if took := time.Since(sent); took >= delay {
		t.Fatalf("a request that was sent after Heal took %v", took)
	}
	far.gets("late, then in time")
	far.ends(io.EOF)
	if took := time.Since(sent); took < delay {
		t.Fatalf("a request with a delay of %v took %v", delay, took)
	}

	n.Delay(0, delay)
	sent = time.Now()
	otherFar.send("reply")
	other.gets("reply")
	if took := time.Since(sent); took < delay {
		t.Fatalf("a reply with a delay of %v took %v", delay, took)
	}
}

func TestSever(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	client, far := connect(t, n, s)
	n.Sever()
	client.ends(syscall.ECONNRESET)
	far.ends(syscall.ECONNRESET)
	client, far = connect(t, n, s)
	client.send("works")
	far.gets("works")
}

// A client that has gone must not leave its server with a connection that looks well.
func TestReplyToNobodyBreaksTheConnection(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	client, far := connect(t, n, s)
	client.send("ask")
	far.gets("ask")
	client.Close()
	far.ends(io.EOF)
	for end := time.Now().Add(soon); ; {
		if _, err := io.WriteString(far, "answer"); err != nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the server goes on sending to nobody")
		}
	}
}

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

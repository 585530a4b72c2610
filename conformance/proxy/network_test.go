package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
)

var (
	_ conformance.OneWayLink    = (*proxy.Network)(nil)
	_ conformance.ForgetfulLink = (*proxy.Network)(nil)
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	soon  = 5 * time.Second       // bounds what must happen
	while = 50 * time.Millisecond // how long is looked for what must not happen
)

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
	wantLost(t, n, 0)
	far.send("lost")
	wantLost(t, n, 1)
	client.getsNothing()
	far.send("lost as well: a stream has no gaps")
	client.getsNothing()
	wantLost(t, n, 1)
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

// wantLost waits until the network has read what it loses.
func wantLost(t *testing.T, n *proxy.Network, want int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("Lost = %d", want), func() bool { return n.Lost() == want })
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("there is no %s after %v", what, soon)
		}
	}
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
	wantLost(t, n, 0)
	chosenFar.send("granted")
	wantLost(t, n, 1)
	chosen.getsNothing()
	client.send("acquire again")
	far.gets("acquire again")
	far.send("granted")
	client.gets("granted")
}

func TestDelay(t *testing.T) {
	n, s := newNetwork(t), newServer(t)
	client, far := connect(t, n, s)
	// What is under way stays late when the network is healed. It doesn't hold up others.
	sendDelayed(t, n, client, "in an hour", time.Hour)
	far.send("in time")
	client.gets("in time")
	n.Heal()
	other, otherFar := connect(t, n, s)
	other.send("overtakes")
	otherFar.gets("overtakes")
	far.getsNothing()

	const delay = 4 * while
	sent := time.Now()
	sendDelayed(t, n, other, "late", delay)
	n.Heal()
	other.send(", then in time")
	_ = other.Conn.(*net.TCPConn).CloseWrite()
	otherFar.gets("late, then in time")
	otherFar.ends(io.EOF)
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

// sendDelayed returns when the network has read what client has sent.
func sendDelayed(t *testing.T, n *proxy.Network, client end, text string, delay time.Duration) {
	t.Helper()
	n.Delay(delay, 0)
	hasCome := n.Expect(text)
	client.send(text)
	waitFor(t, strconv.Quote(text), hasCome)
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

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

func wantLost(t *testing.T, n *proxy.Network, want int) {
	t.Helper()
	if lost := n.Lost(); lost != want {
		t.Errorf("Lost = %d, want %d", lost, want)
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
	chosen.getsNothing()
	wantLost(t, n, 1)
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

package main

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// echoServer returns the address of a server that sends back what it gets, and ends its stream when
// the client does.
func echoServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func startDelay(t *testing.T, added time.Duration, servers ...string) (*Delay, []string) {
	t.Helper()
	var d Delay
	var addrs []string
	if err := d.Start(DelayArgs{Added: added, Servers: servers, CPU: -1}, &addrs); err != nil {
		t.Fatal(err)
	}
	return &d, addrs
}

func TestDelayIsAddedAndOrderIsKept(t *testing.T) {
	const added = 30 * time.Millisecond
	_, addrs := startDelay(t, added, echoServer(t))
	conn, err := net.Dial("tcp", addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var sent []byte
	first := time.Now()
	for i := range 2000 {
		sent = append(sent, byte(i), byte(i>>8))
		if _, err := conn.Write(sent[2*i:]); err != nil {
			t.Fatal(err)
		}
	}
	last := time.Now()
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2)
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(first); took < added {
		t.Errorf("the first answer came after %v, want %v at least", took, added)
	}
	rest, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(last); took < added {
		t.Errorf("the last answer came %v after its request, want %v at least", took, added)
	}
	if got = append(got, rest...); !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back, want the %d that were sent, in their order", len(got), len(sent))
	}
}

// With a limit to what is under way, the second request would wait for the answer to the first.
func TestDelayDoesNotLimitWhatIsUnderWay(t *testing.T) {
	const added = 2 * time.Hour
	d, addrs := startDelay(t, added, echoServer(t))
	conn, err := net.Dial("tcp", addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	block := make([]byte, 1<<20)
	const blocks = 32 // more than the buffers of two sockets
	if err := conn.SetWriteDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for range blocks {
		if _, err := conn.Write(block); err != nil {
			t.Fatalf("a write failed: %v; want all to be taken at once", err)
		}
	}
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	if len(d.queue.underWay) == 0 {
		t.Error("nothing is under way, want what was written")
	}
}

func TestEchoThroughDelay(t *testing.T) {
	d, _ := startDelay(t, 4*time.Millisecond)
	var echo, late Lateness
	if err := d.Echo(5, &echo); err != nil {
		t.Fatal(err)
	}
	if err := d.Lateness(0, &late); err != nil {
		t.Fatal(err)
	}
	// Echo subtracts the direct way, which may be slow on a busy machine.
	if echo.P50 == 0 || late.P50 < 0 || late.P99 < late.P50 {
		t.Errorf("the echo took %v more, and messages were %v late, want both to be measured", echo, late)
	}
}

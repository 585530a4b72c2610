package zkconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/internal/zkconn/zktest"
)

func TestHeadsOfPackets(t *testing.T) {
	packets := [][]byte{
		bytes.Repeat([]byte{1}, 37), {}, {2}, bytes.Repeat([]byte{3}, headSize), bytes.Repeat([]byte{4}, headSize+1), {5, 5, 5, 5}, bytes.Repeat([]byte{6}, 5000),
	}
	var stream []byte
	for _, p := range packets {
		stream = append(stream, zktest.Packet(p)...)
	}
	for _, piece := range []int{1, 2, 3, 4, 5, 7, 16, 28, 29, 30, 100, len(stream)} {
		heads := heads(stream, piece)
		if len(heads) != len(packets) {
			t.Fatalf("in pieces of %d: %d packets, want %d", piece, len(heads), len(packets))
		}
		for i, p := range packets {
			if want := p[:min(len(p), headSize)]; !bytes.Equal(heads[i], want) {
				t.Errorf("in pieces of %d: packet %d begins with %v, want %v", piece, i, heads[i], want)
			}
		}
	}
}

// pipe returns both ends of a connection; the near one is watched.
func pipe(t *testing.T, patience time.Duration) (near, far net.Conn) {
	t.Helper()
	c, far := zktest.NewConnection()
	return watched(t, c, far, patience), far
}

func watched(t *testing.T, c, far net.Conn, patience time.Duration) (near net.Conn) {
	t.Helper()
	near = newWire(c, "zk:2181", patience, patience, func() {})
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	return near
}

func write(t *testing.T, c net.Conn, data []byte) {
	t.Helper()
	if _, err := c.Write(data); err != nil {
		t.Fatalf("Write = %v", err)
	}
}

// reads reads what comes in one piece, and returns how long that took.
func reads(c net.Conn) (time.Duration, error) {
	began := time.Now()
	_, err := c.Read(make([]byte, 1000))
	return time.Since(began), err
}

// limit sets go-zookeeper's own limit, which is too long.
func limit(t *testing.T, c net.Conn, at time.Time) {
	t.Helper()
	if err := c.SetReadDeadline(at); err != nil {
		t.Fatal(err)
	}
}

func greetingPacket(timeout int32, session int64) []byte {
	w := new(zktest.Writer)
	w.Int32(0)
	w.Int32(timeout)
	w.Int64(session)
	w.String("1234567890123456")
	w.Bool(false)
	return zktest.Packet(w.Data)
}

func reply(xid int32) []byte { return replyWith(xid, 0) }

func replyWith(xid, code int32) []byte {
	w := new(zktest.Writer)
	w.Int32(xid)
	w.Int64(1)
	w.Int32(code)
	return zktest.Packet(w.Data)
}

const patience = 100 * time.Millisecond

func late(t *testing.T, c net.Conn, what string) {
	t.Helper()
	if took, err := reads(c); !errors.Is(err, os.ErrDeadlineExceeded) || took != patience {
		t.Errorf("%s: Read = %v after %v, want that it gives up after %v", what, err, took, patience)
	}
}

// replyToMulti is what servers say to several operations of which the first has failed.
func replyToMulti(xid, code int32) []byte {
	w := new(zktest.Writer)
	w.Int32(xid)
	w.Int64(1)
	w.Int32(0)
	w.Int32(-1)
	w.Bool(false)
	w.Int32(code)
	w.Int32(code)
	return zktest.Packet(w.Data)
}

// replyWithStat is the answer to a read of a node that has no data, which begins in the same way.
func replyWithStat(xid int32) []byte {
	w := new(zktest.Writer)
	w.Int32(xid)
	w.Int64(1)
	w.Int32(0)
	w.Int32(-1)
	w.Int64(0x0000007f_ffffffff) // its czxid
	return zktest.Packet(w.Data)
}

// A server that says that the session has ended, or moved, may go on to answer reads and pings.
func TestSessionOfAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			says string
			data []byte
			ends bool
		}{
			{"done", replyWith(1, 0), false},
			{"no node", replyWith(1, -101), false},
			{"expired", replyWith(1, -112), true},
			{"moved", replyWith(1, -118), true},
			{"no data", replyWithStat(1), false},
			{"several: no node", replyToMulti(1, -101), false},
			{"several: expired", replyToMulti(1, -112), true},
			{"several: moved", replyToMulti(1, -118), true},
		} {
			near, far := pipe(t, patience)
			write(t, near, []byte("connect"))
			write(t, far, greetingPacket(1000, 7))
			if _, err := reads(near); err != nil {
				t.Fatal(err)
			}
			write(t, near, []byte("request"))
			write(t, far, c.data)
			if _, err := reads(near); err != nil {
				t.Errorf("%s: Read = %v, want the reply", c.says, err)
			}
			_, _ = far.Write(reply(-2)) // a pong
			if _, err := reads(near); (err != nil) != c.ends {
				t.Errorf("%s: Read = %v, want that the connection ends: %v", c.says, err, c.ends)
			}
		}
	})
}

// A read of a node's data is made a watch; nothing else is touched, the request to connect least of
// all.
func TestReadsAreMadeWatches(t *testing.T) {
	near, far := pipe(t, time.Minute)
	read := func(op int32) []byte {
		w := new(zktest.Writer)
		w.Int32(7)
		w.Int32(op)
		w.String("/a")
		w.Bool(false)
		return zktest.Packet(w.Data)
	}
	passes := func(sent, want []byte) {
		t.Helper()
		before := bytes.Clone(sent)
		write(t, near, sent)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("sent %v, and what arrived is %v, %v, want %v", sent, got, err, want)
		}
		if !bytes.Equal(sent, before) {
			t.Errorf("what was to be sent was changed in its buffer")
		}
	}
	const exists, getData = 3, 4
	passes(read(getData), read(getData)) // the first packet, whatever it looks like
	write(t, far, greetingPacket(1000, 7))
	if _, err := reads(near); err != nil {
		t.Fatal(err)
	}
	passes(read(exists), read(exists))
	watch := read(getData)
	watch[len(watch)-1] = 1
	passes(read(getData), watch)
	passes([]byte("short"), []byte("short"))
}

// go-zookeeper sees nothing of such an answer: it would make room for a gigabyte.
func TestGreetingOfAnotherService(t *testing.T) {
	for name, text := range map[string]string{
		"HTTP":  "HTTP/1.1 400 Bad Request\r\n\r\n",
		"short": "\x00\x00\x00\x04oops",
		"long":  "\x00\x00\x00\x40" + string(make([]byte, 64)),
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := pipe(t, patience)
			write(t, near, []byte("connect"))
			write(t, far, []byte(text))
			n, err := io.ReadFull(near, make([]byte, 4))
			if n != 0 || err == nil || !errors.Is(err, errForeign) {
				t.Errorf("%s: Read = %d, %v, want nothing and an error", name, n, err)
			}
		})
	}
}

// heads feeds a stream to a reader of packets, in pieces of some size, and returns the heads of the
// packets.
func heads(stream []byte, piece int) (heads [][]byte) {
	var f packets
	for len(stream) > 0 {
		n := min(piece, len(stream))
		f.feed(stream[:n], func(head []byte) { heads = append(heads, append([]byte{}, head...)) })
		stream = stream[n:]
	}
	return heads
}

// greeted returns what the answer to the request to connect says.
func greeted(c net.Conn) (timeout time.Duration, session int64) {
	h := c.(*wire).receivedGreeting()
	if h == nil {
		return 0, 0
	}
	return time.Duration(h.timeout) * time.Millisecond, h.session
}

// A read of a node's data is made a watch on its way out, unless its path says that it is none.
func TestReadsThatWatch(t *testing.T) {
	request := func(path string, watch bool) []byte {
		w := new(zktest.Writer)
		w.Int32(7)
		w.Int32(4)
		w.String(path)
		w.Bool(watch)
		return zktest.Packet(w.Data)
	}
	for path, want := range map[string][]byte{
		"/a/b":                         request("/a/b", true),
		unwatched + "/a/b":             request("/a/b", false),
		unwatched + unwatched + "/a/b": request(unwatched+"/a/b", false),
		"/a" + unwatched:               request("/a"+unwatched, true),
	} {
		sent := request(path, false)
		before := bytes.Clone(sent)
		if got := withWatch(sent); !bytes.Equal(got, want) || !bytes.Equal(sent, before) {
			t.Errorf("the read of %s is sent as %q, want %q", path, got, want)
		}
	}
	if short := []byte{0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 4, 0}; !bytes.Equal(withWatch(short), append(bytes.Clone(short[:12]), 1)) {
		t.Error("a packet without a path isn't passed on")
	}
}

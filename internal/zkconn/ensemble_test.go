package zkconn

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/fencedlock/locker/internal/zkconn/zktest"
)

// ensemble is one server that confirms sessions, and answers what a test lets it answer.
type ensemble struct {
	mu      sync.Mutex
	silent  bool
	expired bool            // no session exists
	rude    bool            // it hangs up in place of an answer to the request to end a session
	strict  bool            // it ends no session without credentials
	refuses bool            // it refuses credentials
	unheard bool            // its answers are lost
	authed  bool            // it was given credentials
	zxid    int64           // the newest transaction that it knows; 0: 1
	granted []time.Duration // to each request to connect
	ended   []int64         // sessions
}

const (
	shortest, longest = 4 * time.Second, 40 * time.Second
	sessionID         = 7
)

func (e *ensemble) dial(context.Context, string, string) (net.Conn, error) {
	near, far := zktest.NewConnection()
	go func() {
		defer far.Close()
		for e.serve(far) {
		}
	}()
	return near, nil
}

// serve answers the first packet of a connection, or a later one. It is false when the connection ends.
func (e *ensemble) serve(c net.Conn) bool {
	size := make([]byte, 4)
	if _, err := io.ReadFull(c, size); err != nil {
		return false
	}
	r := &zktest.Reader{Data: make([]byte, binary.BigEndian.Uint32(size))}
	if _, err := io.ReadFull(c, r.Data); err != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(r.Data) >= greetingSize+8 { // a request to connect; other requests of these tests are shorter
		r.Int32()
		if r.Int64() > max(e.zxid, 1) {
			return false
		}
		asked := time.Duration(r.Int32()) * time.Millisecond
		if e.expired {
			e.write(c, greetingPacket(0, 0))
			return false
		}
		granted := min(max(asked, shortest), longest)
		e.granted = append(e.granted, granted)
		e.write(c, greetingPacket(int32(granted.Milliseconds()), sessionID))
		return true
	}
	xid, op := r.Int32(), r.Int32()
	if op == -11 {
		if e.strict && !e.authed {
			return false
		}
		e.ended = append(e.ended, sessionID)
		if !e.rude {
			e.confirm(c, xid)
		}
		return false
	}
	if op == 100 && e.refuses {
		e.write(c, replyWith(xid, -115))
		return false
	}
	if op == 100 {
		e.authed = true
		e.confirm(c, xid)
		return true
	}
	if !e.silent {
		w := new(zktest.Writer)
		w.Int32(xid)
		w.Int64(max(e.zxid, 1))
		w.Int32(-101) // no such node: an answer all the same
		e.write(c, zktest.Packet(w.Data))
	}
	return true
}

func (e *ensemble) write(c net.Conn, data []byte) {
	if !e.unheard {
		_, _ = c.Write(data)
	}
}

// confirm answers a request that has succeeded.
func (e *ensemble) confirm(c net.Conn, xid int32) {
	w := new(zktest.Writer)
	w.Int32(xid)
	w.Int64(max(e.zxid, 1))
	w.Int32(0)
	e.write(c, zktest.Packet(w.Data))
}

func (e *ensemble) be(silent bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.silent = silent
}

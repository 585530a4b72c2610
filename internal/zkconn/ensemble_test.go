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
	alone   bool            // it has no quorum
	origin  Origin          // of the node that it is asked for; zero: there is none
	zxid    int64           // the newest transaction that it knows; 0: 1
	opened  int             // new sessions
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
		if r.Int64() == 0 {
			e.opened++
		}
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
	if e.strict && !e.authed {
		return false
	}
	if !e.silent {
		e.write(c, e.look(xid, op))
	}
	return true
}

// look answers a request about a node. No such node is an answer all the same.
func (e *ensemble) look(xid, op int32) []byte {
	const exists, multi, noNode, expired = 3, 14, -101, -112
	switch {
	case op == multi && e.alone:
		return replyToMulti(xid, expired)
	case op == multi:
		return replyToMulti(xid, noNode)
	}
	w := new(zktest.Writer)
	w.Int32(xid)
	w.Int64(max(e.zxid, 1))
	if op != exists || e.origin == (Origin{}) {
		w.Int32(noNode)
		return zktest.Packet(w.Data)
	}
	w.Int32(0)
	w.Int64(e.origin.Czxid)
	w.Int64(9) // mzxid
	w.Int64(e.origin.Ctime)
	w.Data = append(w.Data, make([]byte, 44)...)
	return zktest.Packet(w.Data)
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

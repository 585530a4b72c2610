package zkbackend_test

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker/internal/zkconn/zktest"
)

// The fake server's packets.

// Events of nodes.
const (
	deleted     = 2
	dataChanged = 3
)

func (s *server) tell(c *conn, event int32, name string) {
	const syncConnected = 3
	w := new(zktest.Writer)
	w.Int32(-1)
	w.Int64(-1)
	w.Int32(0)
	w.Int32(event)
	w.Int32(syncConnected)
	w.String(name)
	s.send(c, w.Data)
}

func (s *server) send(c *conn, data []byte) {
	switch packet := zktest.Packet(data); {
	case c.mute || s.muted:
	case c.slow != nil:
		p := parcel{packet: packet, due: time.Now().Add(s.way)}
		if len(packet) > longAnswer {
			p.trickle = s.trickle
		}
		c.slow <- p
	default:
		_, _ = c.Write(packet)
	}
}

// longAnswer is the longest packet that arrives in one piece, whatever trickle is.
const longAnswer = 1000

// parcel is a packet that arrives at a time.
type parcel struct {
	packet  []byte
	due     time.Time
	trickle time.Duration // from its first byte to its last
}

// deliver sends what is on its way on a slow connection, until that has ended.
func (c *conn) deliver() {
	for p := range c.slow {
		time.Sleep(time.Until(p.due))
		const pieces = 20
		if size := len(p.packet) / pieces; p.trickle > 0 {
			for range pieces {
				_, _ = c.Write(p.packet[:size])
				p.packet = p.packet[size:]
				time.Sleep(p.trickle / pieces)
			}
		}
		_, _ = c.Write(p.packet)
	}
}

func readPacket(c net.Conn) (*zktest.Reader, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(c, size); err != nil {
		return nil, err
	}
	data := make([]byte, binary.BigEndian.Uint32(size))
	_, err := io.ReadFull(c, data)
	return &zktest.Reader{Data: data}, err
}

func (s *server) handle(tcp net.Conn) {
	c := &conn{Conn: tcp, watches: make(map[string]bool)}
	defer tcp.Close()
	s.mu.Lock()
	s.conns[c] = true
	if s.way > 0 {
		c.slow = make(chan parcel, 10_000)
		s.all.Go(c.deliver)
	}
	s.mu.Unlock()
	defer func() {
		if c.slow != nil {
			close(c.slow)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	}()
	r, err := readPacket(tcp)
	if err != nil || !s.greet(c, r) {
		return
	}
	for {
		r, err := readPacket(tcp)
		if err != nil || !s.take(c, r) {
			return
		}
	}
}

// greet answers a request to connect.
func (s *server) greet(c *conn, r *zktest.Reader) bool {
	r.Int32()
	seen := r.Int64()
	asked, session := time.Duration(r.Int32())*time.Millisecond, r.Int64()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connects = append(s.connects, session)
	s.asks[session] = asked
	if s.down || seen > s.tree.zxid { // a server that knows less than the client has seen says nothing

		return false
	}
	w := new(zktest.Writer)
	w.Int32(0)
	if session == 0 {
		s.last++
		session = s.last
		s.sessions[session] = c
	} else if old := s.sessions[session]; old == nil {
		w.Int32(0)
		w.Int64(0)
		w.String(strings.Repeat("\x00", 16))
		s.send(c, w.Data)
		return true // go-zookeeper leaves it open
	} else if old != c {
		s.drop(old)
		s.sessions[session] = c
	}
	c.session = session
	c.stale, s.stale = s.stale, nil
	w.Int32(int32(min(max(asked, s.shortest), s.longest).Milliseconds()))
	w.Int64(session)
	w.String(strings.Repeat("p", 16))
	s.send(c, w.Data)
	return true
}

var opNames = map[int32]string{
	1: "create", 2: "delete", 3: "exists", 4: "get", 5: "set", 9: "sync", 11: "ping", 12: "children", 13: "check",
	14: "multi", 19: "container", 100: "auth", 101: "watches", -11: "close",
}

// take executes a request, or does what the script says. It is false when the connection ends.
func (s *server) take(c *conn, r *zktest.Reader) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	xid, op := r.Int32(), r.Int32()
	q := request{session: c.session, op: opNames[op]}
	if peek := (&zktest.Reader{Data: r.Data}); slices.Contains([]string{"create", "delete", "exists", "get", "set", "sync", "children", "container"}, q.op) {
		q.path = peek.String()
		z := s.tree.nodes[q.path]
		q.own = q.op == "get" && z != nil && z.owner == c.session
	}
	s.requests = append(s.requests, q)
	v := serve
	if s.script != nil && q.op != "ping" {
		v = s.script(q)
	}
	if c.stale != nil && !slices.Contains([]string{"ping", "auth", "exists", "get", "children", "sync"}, q.op) {
		v = ignore // it waits for the others
	}
	switch v {
	case hangUp:
		return false
	case ignore:
		c.mute = true
		return true
	case delay:
		c.mute = true
		s.delayed = append(s.delayed, func() bool {
			return s.sessions[c.session] == c && s.do(c, q.op, r, new(zktest.Writer)) == ok
		})
		return true
	}
	w := new(zktest.Writer)
	code := noAuth
	switch {
	case v == refuse:
	case v == reject:
		code = authFailed
	case s.sessions[c.session] == nil && !slices.Contains([]string{"ping", "exists", "get", "children", "sync", "multi"}, q.op):
		code = expired // a follower answers reads all the same, and says it of a multi in the result
	default:
		code = s.do(c, q.op, r, w)
	}
	h := new(zktest.Writer)
	h.Int32(xid)
	h.Int64(s.tree.zxid)
	h.Int32(int32(code))
	if code == ok {
		h.Data = append(h.Data, w.Data...)
	}
	c.mute = c.mute || v == loseReply
	if v != hangUpAfter {
		s.send(c, h.Data)
	}
	if c.stale != nil && s.parting && q.op == "children" {
		return false
	}
	return v != hangUpAfter && v != reject && q.op != "close"
}

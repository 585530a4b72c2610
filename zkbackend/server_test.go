package zkbackend_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker/internal/zkconn/zktest"
)

// server is a ZooKeeper of one server in this process, which fails as a test wants it to. It ends a
// session when a test says so, not by time. It belongs in a bubble of testing/synctest, so that a
// busy machine can't disturb tests of time.
type server struct {
	t        *testing.T
	addr     string
	shortest time.Duration // session that is granted
	longest  time.Duration

	mu       sync.Mutex
	tree     *tree
	sessions map[int64]*conn // the last connection of each that has not ended
	last     int64           // session
	conns    map[*conn]bool
	script   func(r request) verdict
	requests []request
	connects []int64                 // the session of each request to connect
	asks     map[int64]time.Duration // the timeout that the last of them for each session asked for
	keeps    bool                    // a connection is kept when its session ends
	hidden   string                  // a node that nobody may read
	stale    *tree                   // what the server of the next connection knows, which is cut off from the others
	parting  bool                    // that one ends the connection when it has listed nodes
	down     bool                    // nobody listens
	muted    bool                    // nothing is answered, not even a request to connect
	all      sync.WaitGroup          // its goroutines
}

// request is what a client asks. path is that of the first operation.
type request struct {
	session int64
	op      string
	path    string
	own     bool // it watches a node of its own
}

func (r request) String() string { return r.op + " " + r.path }

// verdict is what becomes of a request.
type verdict int

const (
	serve     verdict = iota
	loseReply         // it is executed, and nothing more is sent on that connection
	hangUp            // it isn't executed, and its connection ends
	hangUpAfter
	ignore // it isn't executed, and nothing more is sent on that connection
	refuse // with noAuth
	reject // with authFailed, and its connection ends
)

type conn struct {
	net.Conn
	session int64
	watches map[string]bool
	mute    bool
	stale   *tree // nil: the server is not cut off
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{
		t: t, addr: "zk:2181", shortest: 200 * time.Millisecond, longest: 100 * time.Second,
		tree: newTree(), sessions: make(map[int64]*conn), conns: make(map[*conn]bool), asks: make(map[int64]time.Duration),
	}
	t.Cleanup(func() {
		s.sever()
		s.all.Wait()
	})
	return s
}

// dial is what clients dial with. What they are connected by is no network's, so that time can be a
// bubble's.
func (s *server) dial(context.Context, string, string) (net.Conn, error) {
	near, far := zktest.NewConnection()
	s.all.Go(func() { s.handle(far) })
	return near, nil
}

// scripts sets what becomes of requests from now on.
func (s *server) scripts(f func(r request) verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = f
}

// once gives one request that does op a verdict, and serves the others.
func (s *server) once(op string, v verdict) {
	done := false
	s.scripts(func(r request) verdict {
		if r.op == op && !done {
			done = true
			return v
		}
		return serve
	})
}

// sever ends all connections.
func (s *server) sever() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		s.drop(c)
	}
}

// wipe makes the server lose its data, sessions too, as after a restart without it.
func (s *server) wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree, s.sessions = newTree(), make(map[int64]*conn)
	for c := range s.conns {
		s.drop(c)
	}
}

// ownerOf is the session of a node.
func (s *server) ownerOf(path string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	z := s.tree.nodes[path]
	if z == nil {
		return 0
	}
	return z.owner
}

// drop ends a connection, and forgets it at once.
func (s *server) drop(c *conn) {
	delete(s.conns, c)
	c.mute = true
	_ = c.Close()
}

// expire ends a session: its nodes go at once, its client hears of it when it connects again.
func (s *server) expire(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endSession(session)
}

func (s *server) endSession(session int64) {
	c := s.sessions[session]
	delete(s.sessions, session)
	for name, z := range s.tree.nodes {
		if z.owner == session {
			s.remove(name)
		}
	}
	if c != nil && !s.keeps {
		s.drop(c)
	}
}

// remove deletes a node and tells those who watch it.
func (s *server) remove(name string) code {
	code := s.tree.remove(name)
	if code != ok {
		return code
	}
	for c := range s.conns {
		if c.watches[name] {
			delete(c.watches, name)
			s.tell(c, deleted, name)
		}
	}
	return ok
}

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
	if !c.mute && !s.muted {
		_, _ = c.Write(zktest.Packet(data))
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
	s.mu.Unlock()
	defer func() {
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

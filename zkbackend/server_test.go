package zkbackend_test

import (
	"context"
	"net"
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
	way      time.Duration           // how long answers and events are on their way, on connections made from now on
	trickle  time.Duration           // how much longer the last byte of a long answer is on its way than the first, on such connections
	delayed  []func() bool           // requests that the network has: see arrive
	all      sync.WaitGroup          // its goroutines
}

// request is what a client asks. path is the first operation's.
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
	delay  // the same, until arrive is called: the network has it
	refuse // with noAuth
	reject // with authFailed, and its connection ends
)

type conn struct {
	net.Conn
	session int64
	watches map[string]bool
	mute    bool
	stale   *tree       // nil: the server is not cut off
	slow    chan parcel // what is on its way; nil: that takes no time
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

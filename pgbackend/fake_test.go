package pgbackend_test

import (
	"context"
	"maps"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// fake is a server that knows the statements of this package, and no other. It is for what a real
// one can't be made to do: to be old, to introduce itself with another number, to say nothing.
type fake struct {
	addr string

	mu         sync.Mutex
	version    int
	standby    bool
	readOnly   bool
	locksPerTx int
	protocol   string   // of the schema; "" where the column is missing
	missing    []string // the answer to what is missing there; nil: nothing is
	noEpoch    bool     // the table of the epoch has no row
	keyPID     int      // added to the number by which a connection introduces itself
	taken      int      // locks in the lock table, of others
	pids       int      // that were given out
	seq        int
	reached    int
	raised     int                           // by how much the epoch was raised
	remade     int                           // how often the sequence was made again, which the row of the epoch knows of
	promoted   int                           // how many promotions there were
	known      int                           // how many of them the row of the epoch knows of
	server     int                           // which server further connections lead to: 0 at first
	ended      []int                         // servers that were asked to end a session
	cancelled  []int                         // servers that were asked to cancel a statement
	local      bool                          // it says that clients are on its machine
	noTCP      bool                          // it has no tcp_user_timeout
	greeting   *pgproto3.ErrorResponse       // to each client
	locks      map[string]*fakeConn          // by key: who holds the lock exclusively
	shared     map[string]map[*fakeConn]bool // by key: who holds it in shared mode
	gates      map[string]*fakeConn          // by the key of the lock
	conns      map[*fakeConn]bool
	table      [][]string              // the tables of locks and of leases, as a look at both returns them
	marked     [][]string              // the answer to a Break
	leases     map[string]fakeRow      // the table of leases, by key and presence; nil: there is none
	waited     *fakeConn               // the last one that has waited for a lock
	mute       *fakeConn               // one that is never answered
	seen       []string                // statements
	asked      string                  // the last statement by which a connection makes sure that it has its session for itself
	shown      string                  // what is shown instead, if anything
	before     func(sql string) string // what to do: "" answers; "late" answers later, "no" says that nothing was done; "swallow", "silence", "hang up", "end", or the text of an error, also after "executed, then "
	slow       time.Duration           // for each answer
	late       time.Duration           // for one that is late
	last       *pgproto3.ErrorResponse // what is said before the end
}

type fakeConn struct {
	net.Conn
	backend *pgproto3.Backend
	pid     int
	server  int
	ttl     string
	tcp     string
	stuck   bool // in a statement that it doesn't answer
	lazy    bool // a commit doesn't wait for the disk
}

func newFake(t *testing.T) *fake {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeOn(listener.Addr().String())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		f.endAll("57P01")
		all.Wait()
	})
	return f
}

// newFakeOn is a server that serves nobody yet.
func newFakeOn(addr string) *fake {
	return &fake{addr: addr, version: 170000, protocol: "2", locksPerTx: 64, conns: make(map[*fakeConn]bool),
		locks: make(map[string]*fakeConn), shared: make(map[string]map[*fakeConn]bool), gates: make(map[string]*fakeConn)}
}

// piped is a configuration whose connections are pipes, which a fake clock knows.
func piped(t *testing.T) (*fake, *pgxpool.Config) {
	t.Helper()
	f := newFakeOn("127.0.0.1:1")
	c := f.config(t)
	c.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		mine, theirs := net.Pipe()
		go f.serve(theirs)
		return mine, nil
	}
	return f, c
}

func (f *fake) config(t *testing.T) *pgxpool.Config {
	t.Helper()
	c, err := pgx.ParseConfig("postgres://joe:sesame@" + f.addr + "/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	return &pgxpool.Config{ConnConfig: c}
}

// change changes what the server says and does.
func (f *fake) change(do func(f *fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f)
}

// endAll ends all sessions as an administrator does.
func (f *fake) endAll(code string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if code != "" {
			c.backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: "terminating connection"})
			_ = c.backend.Flush()
		}
		_ = c.Close()
		f.free(c)
	}
}

// free gives up the locks of a session.
func (f *fake) free(c *fakeConn) {
	isHolder := func(_ string, holder *fakeConn) bool { return holder == c }
	maps.DeleteFunc(f.locks, isHolder)
	maps.DeleteFunc(f.gates, isHolder)
	for key := range f.shared {
		f.unshare(c, key)
	}
}

// unshare gives up a lock that is held in shared mode. It is false if it isn't.
func (f *fake) unshare(c *fakeConn, key string) bool {
	held := f.shared[key][c]
	delete(f.shared[key], c)
	if len(f.shared[key]) == 0 {
		delete(f.shared, key)
	}
	return held
}

// share takes a lock in shared mode. It is false if another session holds it exclusively.
func (f *fake) share(c *fakeConn, key string) bool {
	if holder := f.locks[key]; holder != nil && holder != c {
		return false
	}
	if f.shared[key] == nil {
		f.shared[key] = make(map[*fakeConn]bool)
	}
	f.shared[key][c] = true
	return true
}

// lock takes a lock exclusively. It is false if another session holds it in any mode.
func (f *fake) lock(c *fakeConn, key string) bool {
	if holder := f.locks[key]; holder != nil && holder != c {
		return false
	}
	for holder := range f.shared[key] {
		if holder != c {
			return false
		}
	}
	f.locks[key] = c // reentrant, as in a session of Postgres
	return true
}

// statements counts those that were seen and contain a text.
func (f *fake) statements(text string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, sql := range f.seen {
		if strings.Contains(sql, text) {
			n++
		}
	}
	return n
}

// matching counts those that match a pattern.
func (f *fake) matching(pattern *regexp.Regexp) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, sql := range f.seen {
		if pattern.MatchString(sql) {
			n++
		}
	}
	return n
}

// connections are those that stand.
func (f *fake) connections() map[*fakeConn]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.conns)
}

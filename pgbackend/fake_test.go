package pgbackend_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"regexp"
	"strconv"
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
	protocol   string // of the schema; "" where the column is missing
	keyPID     int    // added to the number by which a connection introduces itself
	taken      int    // locks in the lock table, of others
	pids       int    // that were given out
	seq        int
	reached    int
	raised     int                           // by how much the epoch was raised
	local      bool                          // it says that clients are on its machine
	noTCP      bool                          // it has no tcp_user_timeout
	greeting   *pgproto3.ErrorResponse       // to each client
	locks      map[string]*fakeConn          // by key: who holds the lock exclusively
	shared     map[string]map[*fakeConn]bool // by key: who holds it in shared mode
	gates      map[string]*fakeConn          // by the key of the lock
	conns      map[*fakeConn]bool
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
	ttl     string
	tcp     string
	stuck   bool // in a statement that it doesn't answer
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

func (f *fake) serve(conn net.Conn) {
	f.mu.Lock()
	f.pids++
	c := &fakeConn{Conn: conn, backend: pgproto3.NewBackend(conn, conn), pid: 1000 + f.pids}
	f.conns[c] = true
	f.mu.Unlock()
	defer func() {
		_ = conn.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.conns, c)
		f.free(c)
	}()
	hello, err := c.backend.ReceiveStartupMessage()
	if _, wantsTLS := hello.(*pgproto3.SSLRequest); wantsTLS {
		if _, err = conn.Write([]byte{'N'}); err == nil {
			_, err = c.backend.ReceiveStartupMessage()
		}
	}
	if err != nil {
		return
	}
	f.mu.Lock()
	if f.greeting != nil {
		c.backend.Send(f.greeting)
		_ = c.backend.Flush()
		f.mu.Unlock()
		return
	}
	c.backend.Send(&pgproto3.AuthenticationOk{})
	c.backend.Send(&pgproto3.BackendKeyData{ProcessID: uint32(c.pid + f.keyPID), SecretKey: []byte{1, 2, 3, 4}}) //nolint:gosec // small
	c.backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	err = c.backend.Flush()
	f.mu.Unlock()
	if err != nil {
		return
	}
	requests, over := make(chan func() error, 100), make(chan struct{}) // as the buffer of a kernel
	defer close(over)
	go f.receive(c, requests, over)
	for execute := range requests {
		if execute() != nil {
			return
		}
	}
}

// receive takes in what a client sends, while the server is busy with what came before.
func (f *fake) receive(c *fakeConn, requests chan<- func() error, over <-chan struct{}) {
	defer close(requests)
	for {
		message, err := c.backend.Receive()
		if err != nil {
			return
		}
		var execute func() error
		switch m := message.(type) {
		case *pgproto3.Query:
			sql := m.String
			execute = func() error { return f.answer(c, sql) }
		case *pgproto3.FunctionCall:
			called := callOf(m)
			execute = func() error { return f.answerCall(c, called) }
		default:
			return
		}
		select {
		case requests <- execute:
		case <-over:
			return
		}
	}
}

// verdict is what to do with a message, and how long to wait before.
func (f *fake) verdict(sql string) (what string, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, sql)
	if f.before != nil {
		what = f.before(sql)
	}
	if what == "late" {
		return "", f.late
	}
	return what, f.slow
}

// answer carries a message out.
func (f *fake) answer(c *fakeConn, sql string) error {
	what, wait := f.verdict(sql)
	time.Sleep(wait)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reply(c, what, &pgproto3.CommandComplete{CommandTag: []byte("SELECT")}, func() {
		rows := f.rows(c, sql)
		if len(rows) > 0 { // which pgx wants to know
			c.backend.Send(&pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, len(rows[0]))})
		}
		for _, row := range rows {
			values := make([][]byte, len(row))
			for i, v := range row {
				if v != "" {
					values[i] = []byte(v)
				}
			}
			c.backend.Send(&pgproto3.DataRow{Values: values})
		}
	}, func() {
		c.backend.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("f"), []byte("f")}})
	})
}

// reply does with a message what a test wants. execute executes it, and sends the result; no sends
// that nothing was done; end comes after either, unless it is nil.
func (f *fake) reply(c *fakeConn, what string, end pgproto3.BackendMessage, execute, no func()) error {
	if f.mute == c || c.stuck { // nothing is executed before what was sent earlier
		what = "silence"
	}
	after, executed := strings.CutPrefix(what, "executed, then ")
	if executed {
		what = ""
	}
	switch what {
	case "swallow": // as if it had never been sent
		return nil
	case "silence":
		c.stuck = true
		return nil
	case "hang up":
		return net.ErrClosed
	case "end":
		c.backend.Send(f.last)
		_ = c.backend.Flush()
		return net.ErrClosed
	case "no":
		no()
	case "":
		execute()
		if executed {
			return c.refuse(after)
		}
	default:
		return c.refuse(what)
	}
	if end != nil {
		c.backend.Send(end)
	}
	c.backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return c.backend.Flush()
}

// refuse answers with an error: its code and its text.
func (c *fakeConn) refuse(what string) error {
	code, text, _ := strings.Cut(what, " ")
	c.backend.Send(&pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: text})
	c.backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return c.backend.Flush()
}

var (
	fakeAsks   = regexp.MustCompile(`^SELECT pg_catalog.pg_backend_pid\(\), \d+$`)
	fakeTTL    = regexp.MustCompile(`'idle_session_timeout', '(\d+)'`)
	fakeTCP    = regexp.MustCompile(`'tcp_user_timeout', '(\d+)'`)
	fakeWait   = regexp.MustCompile(`^SELECT CASE WHEN set_config\(.*pg_advisory_lock\('(-?\d+)'::bigint`)
	fakeStep1  = regexp.MustCompile(`^SELECT CASE WHEN pg_advisory_lock_shared\('(-?\d+)'::bigint\)`)
	fakeStep2  = regexp.MustCompile(`pg_try_advisory_lock_shared\('(-?\d+)'::bigint\)`)
	fakeStep3  = regexp.MustCompile(`^SELECT pg_advisory_unlock_shared\('(-?\d+)'::bigint\)$`)
	fakeStep4  = regexp.MustCompile(`^SELECT CASE WHEN pg_try_advisory_lock\('(-?\d+)'::bigint\) THEN pg_advisory_unlock_shared`)
	fakeStep5  = regexp.MustCompile(`^SELECT pg_advisory_unlock\('(-?\d+)'::integer, '(-?\d+)'::integer\)$`)
	fakeUnlock = regexp.MustCompile(`pg_advisory_unlock(_shared)?\('(-?\d+)'::bigint\)`)
	fakeReach  = regexp.MustCompile(`ELSE reached END THEN setval\(.*?, reached \+ (\d+)\)`)
	fakeMove   = regexp.MustCompile(`greatest\(reached, (\d+)\) \+ (\d+)\)`)
)

func yes(b bool) string { return map[bool]string{true: "t", false: "f"}[b] }

// rows is the answer to a message.
func (f *fake) rows(c *fakeConn, sql string) [][]string {
	if m := fakeTTL.FindStringSubmatch(sql); m != nil {
		c.ttl = m[1]
	}
	if all := fakeTCP.FindAllStringSubmatch(sql, -1); all != nil && !f.noTCP {
		c.tcp = all[len(all)-1][1]
	}
	pid := strconv.Itoa(c.pid)
	if rest, found := strings.CutPrefix(sql, "SET LOCAL lock_timeout = "); found {
		_, sql, _ = strings.Cut(rest, "; ")
	}
	switch {
	case strings.HasPrefix(sql, "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery("):
		return [][]string{{pid, yes(f.standby), strconv.Itoa(f.version), map[bool]string{true: "on", false: "off"}[f.readOnly], "100", strconv.Itoa(f.locksPerTx), "0"}}
	case sql == "show transaction_read_only": // by pgx
		return [][]string{{map[bool]string{true: "on", false: "off"}[f.readOnly || f.standby]}}
	case sql == "SELECT pg_backend_pid()", sql == "BEGIN; SELECT pg_catalog.pg_backend_pid()":
		return [][]string{{pid}}
	case strings.HasPrefix(sql, "SELECT pg_backend_pid(), nextval("):
		f.seq++
		return [][]string{{pid, strconv.Itoa(f.seq)}}
	case fakeAsks.MatchString(sql):
		f.asked = sql
		return [][]string{{pid}}
	case strings.HasPrefix(sql, "SELECT state, query FROM "):
		return [][]string{{"idle", cmp.Or(f.shown, f.asked)}}
	case strings.HasPrefix(sql, "SELECT set_config('lock_timeout'"):
		return [][]string{{"", c.ttl, cmp.Or(c.tcp, "0"), yes(f.local)}}
	case strings.HasPrefix(sql, "SELECT o.sequence"):
		return [][]string{{"t", "t", "1", "1", "f", "p", "t"}}
	case strings.Contains(sql, "pg_control_system"):
		return [][]string{{"70", "5", "900", "1", "1790000000000000", "t", strconv.Itoa(1 + f.raised), "70", "5", "900", "1", f.protocol}}
	case fakeReach.MatchString(sql): // there is no mark
		n, _ := strconv.Atoi(fakeReach.FindStringSubmatch(sql)[1])
		f.seq = max(f.seq, f.reached+n)
		f.reached = f.seq
		return [][]string{{strconv.Itoa(f.reached), strconv.Itoa(1 + f.raised)}}
	case fakeMove.MatchString(sql):
		m := fakeMove.FindStringSubmatch(sql)
		floor, _ := strconv.Atoi(m[1])
		step, _ := strconv.Atoi(m[2])
		if f.seq <= floor {
			f.seq = max(f.reached, floor) + step
		}
		f.reached = f.seq
		f.seq++
		return [][]string{{strconv.Itoa(f.seq), strconv.Itoa(f.reached)}}
	case strings.HasPrefix(sql, "UPDATE ") && strings.HasSuffix(sql, "SELECT reached FROM \"locker\".locker_epoch"):
		f.reached = f.seq
		return [][]string{{strconv.Itoa(f.reached)}}
	case strings.Contains(sql, "FROM pg_locks"):
		return [][]string{{strconv.Itoa(f.taken + len(f.locks))}}
	case fakeWait.MatchString(sql): // the holder has just given it back
		key := fakeWait.FindStringSubmatch(sql)[1]
		delete(f.locks, key)
		f.waited, f.gates[key] = c, c
		return [][]string{{f.try(c, key), cmp.Or(c.tcp, "0")}}
	case fakeStep1.MatchString(sql):
		key := fakeStep1.FindStringSubmatch(sql)[1]
		held := f.locks[key] == c
		f.share(c, key)
		delete(f.locks, key)
		return [][]string{{yes(held)}}
	case fakeStep2.MatchString(sql):
		return [][]string{{yes(f.share(c, fakeStep2.FindStringSubmatch(sql)[1]))}}
	case fakeStep3.MatchString(sql):
		return [][]string{{yes(f.unshare(c, fakeStep3.FindStringSubmatch(sql)[1]))}}
	case fakeStep4.MatchString(sql):
		key := fakeStep4.FindStringSubmatch(sql)[1]
		if !f.lock(c, key) {
			return [][]string{{""}}
		}
		return [][]string{{yes(f.unshare(c, key))}}
	case fakeStep5.MatchString(sql):
		m := fakeStep5.FindStringSubmatch(sql)
		high, _ := strconv.ParseInt(m[1], 10, 32)
		low, _ := strconv.ParseInt(m[2], 10, 32)
		key := fmt.Sprint(high<<32 | int64(uint32(low))) //nolint:gosec // the low half, as it is
		held := f.gates[key] == c
		delete(f.gates, key)
		return [][]string{{yes(held)}}
	case fakeGroup.MatchString(sql):
		return f.group(c, sql)
	case fakeTry.MatchString(sql):
		return [][]string{{"1", f.try(c, fakeTry.FindStringSubmatch(sql)[1])}}
	case strings.Contains(sql, "pg_advisory_unlock_all()"):
		f.free(c)
		return [][]string{{"t"}}
	case strings.HasPrefix(sql, "SELECT pg_advisory_unlock("):
		for _, m := range fakeUnlock.FindAllStringSubmatch(sql, -1) {
			if m[1] != "" {
				f.unshare(c, m[2])
			} else if f.locks[m[2]] == c {
				delete(f.locks, m[2])
				if f.gates[m[2]] == c { // which the same statement gives back
					delete(f.gates, m[2])
				}
			}
		}
		return [][]string{{"0"}}
	case strings.Contains(sql, "pg_terminate_backend"): // who asks has the life of nobody in its way
		return [][]string{{"t"}}
	}
	return nil
}

func (f *fake) try(c *fakeConn, key string) string {
	if !f.lock(c, key) {
		return ""
	}
	f.seq++
	return fmt.Sprint(f.seq)
}

// connections are those that stand.
func (f *fake) connections() map[*fakeConn]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.conns)
}

package pgsession

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Settings are what a session is made ready for.
type Settings struct {
	IdleTimeout time.Duration // the server ends the session after this silence of the client
	Blocks      bool          // a statement may be blocked by locks for any time
}

// Server is what a connection says of the server that it leads to.
type Server struct {
	Version     int // 170002 is 17.2
	Standby     bool
	ReadOnly    bool
	Connections int // max_connections
	LocksPerTx  int // max_locks_per_transaction
	Prepared    int // max_prepared_transactions
}

// Look asks what the server is like. It comes before Prepare, so the names are qualified, and what
// is compared is compared here: a role's search_path may put another user's functions and operators
// first.
func (s *Session) Look(ctx context.Context) (Server, error) {
	const setting = ", pg_catalog.current_setting"
	r, err := s.Exec(ctx, "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery()"+
		setting+"('server_version_num')"+setting+"('transaction_read_only')"+setting+"('max_connections')"+
		setting+"('max_locks_per_transaction')"+setting+"('max_prepared_transactions')")
	if err != nil {
		return Server{}, err
	}
	s.PID, s.version = r.Int(0, 0), int(r.Int(0, 2))
	return Server{
		Standby: r.Bool(0, 1), Version: s.version, ReadOnly: r.Value(0, 3) == "on",
		Connections: int(r.Int(0, 4)), LocksPerTx: int(r.Int(0, 5)), Prepared: int(r.Int(0, 6)),
	}, nil
}

// Prepare sets what the session needs, whatever the role, the database or the caller's
// configuration says.
//
//   - idle_session_timeout doesn't run in a transaction: there another timeout counts. A
//     transaction must be sent in one message, and must not be left open.
//   - A statement of a session that Blocks may take any time. The statements that prepare a session
//     may not: a server doesn't notice that the client has given up while it waits for a lock, and
//     each try would leave a process there.
//   - A session that finds that another one has just changed a row goes on with the change. Under
//     other isolation levels it would fail.
//   - A commit is on this server's disk when it is answered, until CheckSettings changes that, and
//     doesn't wait for a standby: a standby that doesn't answer would keep the session waiting.
//   - pg_temp comes last in search_path: a relation that an earlier client of a pooler has left
//     there would be found first otherwise.
//
// What a session says before its search_path is set must qualify all names: another user may have
// put functions where a role looks first.
func (s *Session) Prepare(ctx context.Context) error {
	settings := [][2]string{
		{"search_path", "pg_catalog, pg_temp"},
		{"statement_timeout", "0"},
		{"lock_timeout", milliseconds(connectLimit * 4 / 5)},
		{"synchronous_commit", "local"},
		{"client_min_messages", "error"},
		{"default_transaction_isolation", "read committed"},
		{"idle_in_transaction_session_timeout", milliseconds(connectLimit / 5)},
		{"idle_session_timeout", milliseconds(s.IdleTimeout)},
		{tcpUserTimeout, milliseconds(s.tcpLimit())},
		{keepalivesIdle, noKeepalives},
	}
	if s.version >= 170000 {
		settings = append(settings, [2]string{"transaction_timeout", "0"})
	}
	if !s.Blocks {
		return s.setAll(ctx, settings)
	}
	err := s.setAll(ctx, append(s.clientChecks(), settings...))
	if Says(err, codeUnsupported) { // a server on a system that can't
		err = s.setAll(ctx, settings)
	}
	return err
}

func (s *Session) setAll(ctx context.Context, settings [][2]string) error {
	calls := []string{"pg_catalog.pg_advisory_unlock_all()"} // a pooler that resets nothing has left the locks of a dead client there
	for _, set := range settings {
		calls = append(calls, fmt.Sprintf("pg_catalog.set_config('%s', '%s', false)", set[0], set[1]))
	}
	_, err := s.Exec(ctx, "SELECT "+strings.Join(calls, ", "))
	return err
}

// CheckSettings ends the preparation: it bounds how long a statement may wait for a lock, and reads
// back what decides when the server ends the session. In a session that doesn't Block, only nextval
// waits for a lock from now on (while a client alters the sequence). Each of the calls under way
// may wait for lock_timeout, one after the other, and a renewal comes after all of them. So
// lock_timeout is very short. A statement that has to wait for a row or for its turn has a longer
// one (LockTimeout).
//
// Nor does a commit wait for the disk from now on, unless it asks for that (OnDisk). Otherwise one
// nextval of 33 would, and keep all those waiting that come after it in the session. Through a pooler
// commits go on waiting: one that resets nothing gives the session with its settings to somebody
// else, whose commits must not be lost in a crash.
func (s *Session) CheckSettings(ctx context.Context) error {
	lockTimeout := min(max(s.IdleTimeout/1000, time.Millisecond), 25*time.Millisecond)
	if s.Blocks {
		lockTimeout = 0
	}
	commit := "off"
	if s.throughPooler() {
		commit = "local"
	}
	r, err := s.Exec(ctx, fmt.Sprintf("SELECT set_config('lock_timeout', '%s', false),"+
		" (extract(epoch FROM current_setting('idle_session_timeout')::interval) * 1000)::int8,"+
		" current_setting('%s'), "+onOneMachine+", set_config('synchronous_commit', '%s', false)", milliseconds(lockTimeout), tcpUserTimeout, commit))
	if err != nil {
		return err
	}
	s.oneMachine = r.Bool(0, 3)
	if r.Int(0, 1) != s.IdleTimeout.Milliseconds() {
		return fmt.Errorf("%w: idle_session_timeout was set to %v, and is %d ms", ErrPooler, s.IdleTimeout, r.Int(0, 1))
	}
	return s.CheckTCP(r.Int(0, 2))
}

// LockTimeout is SQL for the beginning of a message of several statements. They wait for locks for
// up to a fraction of IdleTimeout.
func (s *Session) LockTimeout() string {
	return "SET LOCAL lock_timeout = " + milliseconds(min(s.IdleTimeout/8, time.Second)) + "; "
}

// OnDisk is SQL for the beginning of a message of several statements: what they write is on this
// server's disk when they are answered.
const OnDisk = "SET LOCAL synchronous_commit = local; "

// onOneMachine is SQL: whether the session's client is on the server's own machine, so that no
// network lies between that could be cut. Unix-domain sockets have no address and no such timeouts;
// systems other than Linux have no tcp_user_timeout.
const onOneMachine = "coalesce(host(inet_client_addr()) ~ '^(127[.]|::1$)', true)"

// The server must end the session of a client that is cut off by idle_session_timeout, and not
// earlier. TCP would end it earlier: the server's system gives a connection up when a few
// keepalives have had no answer, or when an answer of the server was not acknowledged for long,
// each by settings of the system and of postgresql.conf. So this package sets tcp_user_timeout.
// Then Linux waits that long in both cases.
//
// A connection also ends at once when something answers the server by a reset in the place of a
// client that is cut off: a firewall that rejects, or that has lost the connection, or another host
// with the address. So the server sends no keepalives, or only after hours: 32,767 s is the most
// that Linux takes.
const (
	tcpUserTimeout = "tcp_user_timeout"
	tcpSlack       = 5 * time.Second
	keepalivesIdle = "tcp_keepalives_idle"
	noKeepalives   = "32767"
)

// MaxIdleTimeout is what idle_session_timeout and tcp_user_timeout can say.
const MaxIdleTimeout = (1<<31-1)*time.Millisecond - tcpSlack

// tcpLimit is the tcp_user_timeout of both ends of the connection.
func (s Settings) tcpLimit() time.Duration { return s.IdleTimeout + tcpSlack }

// CheckTCP refuses a session whose tcp_user_timeout, in milliseconds, isn't what it was set to.
func (s *Session) CheckTCP(ms int64) error {
	if s.oneMachine || ms == s.tcpLimit().Milliseconds() {
		return nil
	}
	return fmt.Errorf("%w: %s was set to %v, and is %d ms: TCP may end the session of a holder that is cut off before its deadline "+
		"(of servers on other systems than Linux only those on this machine can be used)", errors.ErrUnsupported, tcpUserTimeout, s.tcpLimit(), ms)
}

// clientChecks makes the server find out that the client of a statement that is blocked is gone: it
// looks at the connection now and then, and the network's own probes notice one that was cut. (See
// BeforeBlocking.)
func (s *Session) clientChecks() [][2]string {
	return [][2]string{
		{"tcp_keepalives_interval", s.interval()},
		{"tcp_keepalives_count", "3"},
		{"client_connection_check_interval", s.interval() + "s"},
	}
}

// interval is the time between two looks at the client of a statement that is blocked, in seconds.
func (s *Session) interval() string {
	return strconv.Itoa(int(min(max(s.IdleTimeout/3, time.Second), 10*time.Second) / time.Second))
}

// BeforeBlocking is SQL that is true, for the beginning of a statement that blocks: from now on the
// server gives a client up that answers no keepalives.
func (s *Session) BeforeBlocking() string {
	return setting(tcpUserTimeout, "0") + " AND " + setting(keepalivesIdle, s.interval())
}

// AfterBlocking is SQL that is true, and takes BeforeBlocking back, for the same statement.
func (s *Session) AfterBlocking() string {
	return setting(tcpUserTimeout, milliseconds(s.tcpLimit())) + " AND " + setting(keepalivesIdle, noKeepalives)
}

// TCPUserTimeout is SQL: what CheckTCP checks.
const TCPUserTimeout = "current_setting('" + tcpUserTimeout + "')"

package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// set sets what the session needs, whatever the role, the database or the caller's configuration says.
//
//   - idle_session_timeout is the TTL. In a transaction another timeout counts. The only ones here are in one message (see reach.go), and
//     must not be left open: a connection that waits for the turn waits for longer than this timeout.
//   - A statement that blocks, of a waiter, may take any time. What makes the connection ready may not: a server doesn't notice that the
//     client has given up while it waits for a lock, and each try would leave a process there.
//   - A connection that finds that another has just raised the epoch goes on with that. Under other isolation levels it would fail.
//   - How far the sequence is must be on disk before it is relied on (see reach.go). On a standby it need not be: a failover begins a new
//     epoch; and to wait for a standby that hangs would cost leases.
//   - pg_temp comes last: a relation that a pooler's client of before has left there would be found first otherwise.
//
// What a session says before its search_path is set must qualify all names: others may have put functions where a role looks first.
func (c *conn) set(ctx context.Context, waiter bool) error {
	settings := [][2]string{
		{"search_path", "pg_catalog, pg_temp"},
		{"statement_timeout", "0"},
		{"lock_timeout", milliseconds(connectLimit * 4 / 5)},
		{"synchronous_commit", "local"},
		{"client_min_messages", "error"},
		{"default_transaction_isolation", "read committed"},
		{"idle_in_transaction_session_timeout", milliseconds(connectLimit / 5)},
		{"idle_session_timeout", milliseconds(c.ttl)},
		{tcpUserTimeout, milliseconds(c.tcpLimit())},
		{keepalivesIdle, noKeepalives},
	}
	if c.version >= 170000 {
		settings = append(settings, [2]string{"transaction_timeout", "0"})
	}
	if !waiter {
		return c.setAll(ctx, settings)
	}
	err := c.setAll(ctx, append(c.noticing(), settings...))
	if says(err, codeUnsupported) { // a server on a system that can't
		err = c.setAll(ctx, settings)
	}
	return err
}

// finish sets what would be in the way before, and reads back what the deadlines of leases rest on. On a shared connection nothing
// waits for locks from now on but nextval, for somebody who alters the sequence; that must not keep the renewal of all leases waiting.
func (c *conn) finish(ctx context.Context, waiter bool) error {
	patience := c.patience()
	if waiter {
		patience = 0
	}
	r, err := c.exec(ctx, fmt.Sprintf("SELECT set_config('lock_timeout', '%s', false),"+
		" (extract(epoch FROM current_setting('idle_session_timeout')::interval) * 1000)::int8,"+
		" current_setting('%s'), "+onOneMachine, milliseconds(patience), tcpUserTimeout))
	if err != nil {
		return err
	}
	c.near = r.bool(0, 3)
	if r.int(0, 1) != c.ttl.Milliseconds() {
		return fmt.Errorf("%w: idle_session_timeout was set to %v, and is %d ms", ErrPooler, c.ttl, r.int(0, 1))
	}
	return c.checkTCP(r.int(0, 2))
}

// checkTCP refuses a connection whose tcp_user_timeout isn't what it was set to.
func (c *conn) checkTCP(ms int64) error {
	if c.near || ms == c.tcpLimit().Milliseconds() {
		return nil
	}
	return fmt.Errorf("%w: %s was set to %v, and is %d ms: TCP may end the session of a holder that is cut off before its deadline "+
		"(of servers on other systems than Linux only those on this machine can be used)", errors.ErrUnsupported, tcpUserTimeout, c.tcpLimit(), ms)
}

func (c *conn) setAll(ctx context.Context, settings [][2]string) error {
	calls := []string{"pg_catalog.pg_advisory_unlock_all()"} // a pooler that clears nothing has left a dead holder's locks there
	for _, s := range settings {
		calls = append(calls, fmt.Sprintf("pg_catalog.set_config('%s', '%s', false)", s[0], s[1]))
	}
	_, err := c.exec(ctx, "SELECT "+strings.Join(calls, ", "))
	return err
}

// patience is how long nextval may be blocked on a shared connection: a fraction of the time between two renewals.
func (c *conn) patience() time.Duration { return min(c.ttl/8, time.Second) }

// The deadline of a lease is right only if nothing on the server's side ends the session before idle_session_timeout does. TCP would: the
// server's system gives a connection up when a few keepalives have had no answer, or when an answer of the server was not acknowledged
// for long, each by settings of the system and of postgresql.conf. With tcp_user_timeout Linux gives it up in neither case before it
// has heard nothing for so long. That is more than the TTL, and the server has heard from the holder after each base.
//
// A connection also ends at once when something answers the server by a reset in the place of a holder that is cut off: a firewall
// that rejects, or that has lost the connection, or another host with the address. So the server sends no keepalives where a lease may be, or
// only after hours: 32,767 s is the most that Linux takes.
const (
	tcpUserTimeout = "tcp_user_timeout"
	tcpSlack       = 5 * time.Second
	keepalivesIdle = "tcp_keepalives_idle"
	noKeepalives   = "32767"
)

// tcpLimit is the tcp_user_timeout of a connection that leases may be attached to, at both of its ends.
func (c *conn) tcpLimit() time.Duration { return c.ttl + tcpSlack }

// onOneMachine is SQL: whether the session's client is on the server's own machine, so that no network lies between that could be cut.
// Unix-domain sockets have no address and no such timeouts; systems other than Linux have no tcp_user_timeout.
const onOneMachine = "coalesce(host(inet_client_addr()) ~ '^(127[.]|::1$)', true)"

// noticing makes the server find out that a waiter's client is gone, while the statement is blocked: it looks at the connection now
// and then, and the network's own probes tell it about one that was cut. The probes are for the time without a lease: while the statement
// is blocked tcp_user_timeout is off and keepalives are on (see block), and from the grant on it is the other way round.
func (c *conn) noticing() [][2]string {
	return [][2]string{
		{"tcp_keepalives_interval", c.interval()},
		{"tcp_keepalives_count", "3"},
		{"client_connection_check_interval", c.interval() + "s"},
	}
}

// interval is that between two looks at a waiter's client, in seconds.
func (c *conn) interval() string {
	return strconv.Itoa(int(min(max(c.ttl/3, time.Second), 10*time.Second) / time.Second))
}

// setting is SQL that changes a setting of the session, and is true.
func setting(name, value string) string {
	return fmt.Sprintf("set_config('%s', '%s', false) IS NOT NULL", name, value)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

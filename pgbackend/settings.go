package pgbackend

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// set sets what the session needs, whatever the role, the database or the caller's configuration says.
//
//   - idle_session_timeout is the TTL. In a transaction another timeout counts. The only ones here are in one message (see skip.go), and
//     must not be left open: whoever waits for the turn waits for longer than this timeout.
//   - A statement that blocks, of a waiter, may take any time. What makes the connection ready may not: a server doesn't notice that the
//     client has given up while it waits for a lock, and each try would leave a process there.
//   - Whoever finds that another has just raised the epoch goes on with that. Under other isolation levels it would fail.
//   - Tokens must be on disk before others hand out what comes after them (see skip.go). On a standby they need not be: a failover
//     begins a new epoch; and to wait for a standby that hangs would cost leases.
func (c *conn) set(ctx context.Context, waiter bool) error {
	settings := [][2]string{
		{"search_path", "pg_catalog"},
		{"statement_timeout", "0"},
		{"lock_timeout", milliseconds(connectLimit * 4 / 5)},
		{"synchronous_commit", "local"},
		{"client_min_messages", "error"},
		{"default_transaction_isolation", "read committed"},
		{"idle_in_transaction_session_timeout", milliseconds(connectLimit / 5)},
	}
	if c.version >= firstWithTTL {
		settings = append(settings, [2]string{"idle_session_timeout", milliseconds(c.ttl)})
	}
	if c.version >= 170000 {
		settings = append(settings, [2]string{"transaction_timeout", "0"})
	}
	if !waiter && c.ttl > 0 {
		return c.setAll(ctx, settings)
	}
	err := c.setAll(ctx, append(c.noticing(), settings...))
	if says(err, codeUnsupported) { // a server on a system that can't
		err = c.setAll(ctx, settings)
	}
	return err
}

// finish sets what would be in the way before, and reads back what the life of the session hangs on. On a shared connection nothing
// waits for locks from now on but nextval, for somebody who alters the sequence; that must not keep the renewal of all leases waiting.
func (c *conn) finish(ctx context.Context, waiter bool) error {
	patience := c.patience()
	if waiter {
		patience = 0
	}
	alive := "NULL"
	if c.ttl > 0 {
		alive = "(extract(epoch FROM current_setting('idle_session_timeout')::interval) * 1000)::int8"
	}
	r, err := c.exec(ctx, fmt.Sprintf("SELECT set_config('lock_timeout', '%s', false), %s", milliseconds(patience), alive))
	if err == nil && r.int(0, 1) != c.ttl.Milliseconds() {
		err = fmt.Errorf("%w: idle_session_timeout was set to %v, and is %d ms", ErrPooler, c.ttl, r.int(0, 1))
	}
	return err
}

func (c *conn) setAll(ctx context.Context, settings [][2]string) error {
	var calls []string
	for _, s := range settings {
		calls = append(calls, fmt.Sprintf("set_config('%s', '%s', false)", s[0], s[1]))
	}
	_, err := c.exec(ctx, "SELECT "+strings.Join(calls, ", "))
	return err
}

// patience is how long nextval may be blocked on a shared connection: a fraction of the time between two renewals.
func (c *conn) patience() time.Duration {
	if c.ttl == 0 {
		return time.Second
	}
	return min(c.ttl/8, time.Second)
}

// noticing makes the server find out that a waiter's client is gone, while the statement is blocked: it looks at the connection now
// and then, and the network's own probes tell it about one that was cut.
func (c *conn) noticing() [][2]string {
	interval := 10 * time.Second
	if c.ttl > 0 {
		interval = min(max(c.ttl/3, time.Second), interval)
	}
	seconds := strconv.Itoa(int(interval / time.Second))
	settings := [][2]string{
		{"tcp_keepalives_idle", seconds},
		{"tcp_keepalives_interval", seconds},
		{"tcp_keepalives_count", "3"},
	}
	if c.version >= firstWithTTL {
		settings = append(settings, [2]string{"client_connection_check_interval", milliseconds(interval)})
	}
	return settings
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// dial makes a connection as the caller's pool would, and takes over its stream.
func (d *pgDriver) dial(ctx context.Context) (stream net.Conn, keyPID int64, err error) {
	cfg := d.pool.ConnConfig.Copy()
	if d.pool.BeforeConnect != nil {
		if err := d.pool.BeforeConnect(ctx, cfg); err != nil {
			return nil, 0, overdue(err)
		}
	}
	if cfg.RuntimeParams == nil {
		cfg.RuntimeParams = make(map[string]string)
	}
	if _, named := cfg.RuntimeParams["application_name"]; !named {
		cfg.RuntimeParams["application_name"] = "locker"
	}
	if cfg.ValidateConnect == nil && hosts(cfg) > 1 { // the first one that answers may be a standby
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	shareTime(ctx, cfg)
	made, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, 0, overdue(err)
	}
	if d.pool.AfterConnect != nil {
		err = d.pool.AfterConnect(ctx, made)
	}
	if err == nil {
		err = made.PgConn().SyncConn(ctx)
	}
	if err != nil {
		_ = made.PgConn().Conn().Close()
		return nil, 0, overdue(err)
	}
	return made.PgConn().Conn(), int64(made.PgConn().PID()), nil
}

// connectTime is how long a connection may take to be made.
func (d *pgDriver) connectTime() time.Duration {
	return time.Duration(hosts(d.pool.ConnConfig)) * connectLimit
}

// shareTime leaves each of several hosts its part of the time: one that is cut off must not use up that of the others.
func shareTime(ctx context.Context, cfg *pgx.ConnConfig) {
	until, limited := ctx.Deadline()
	n := hosts(cfg)
	if !limited || n < 2 {
		return
	}
	if share := time.Until(until) / time.Duration(n); cfg.ConnectTimeout == 0 || cfg.ConnectTimeout > share {
		cfg.ConnectTimeout = max(share, time.Millisecond) // 0 would be no limit
	}
}

// maxStillborn is how often a connection is made whose session the server was just ending. A pooler may have several of those to give.
const maxStillborn = 10

// connect makes a connection that is ready for locks: one that is to be shared, or a waiter's.
func (d *pgDriver) connect(ctx context.Context, ttl time.Duration, waiter bool) (*conn, error) {
	for try := 1; ; try++ {
		stream, keyPID, err := d.dial(ctx)
		if err != nil {
			return nil, err
		}
		c := &conn{d: d, ttl: ttl, claims: make(map[key]*lock), burial: make(chan struct{}, 1)}
		c.wire = newWire(stream, c.ended)
		c.base.Store(int64(c.lastAnswered()))
		if !d.addConn(c) {
			c.end(errClosed)
			return nil, errClosed
		}
		if c.err() != nil { // before it was noted
			d.forgetConn(c)
		}
		now, err := c.look(ctx)
		stillborn := isEnd(err)
		if err == nil {
			err = c.setUp(ctx, now, keyPID, waiter)
		}
		if err == nil {
			return c, nil
		}
		c.end(errClosed)
		if !stillborn || try == maxStillborn {
			return nil, explain(overdue(err), d.schema)
		}
	}
}

func (c *conn) setUp(ctx context.Context, now facts, keyPID int64, waiter bool) error {
	c.pid, c.version = now.pid, now.version
	if err := now.check(); err != nil {
		return err
	}
	if err := c.d.learn(now); err != nil {
		return err
	}
	if !c.d.server.ttl {
		c.ttl = 0
	}
	if err := c.checkPooler(ctx, keyPID); err != nil {
		return err
	}
	if err := c.set(ctx, waiter); err != nil {
		return err
	}
	if !waiter {
		c.d.forgetRoom()
		if err := c.makeObjects(ctx); err != nil {
			return err
		}
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	if err := c.skip(ctx, now.connections); err != nil {
		return err
	}
	return c.finish(ctx, waiter)
}

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

// settle takes the sign of life, and finds out where the sequence is and which epoch it is in.
func (c *conn) settle(ctx context.Context) error {
	for {
		c.life = 1<<31 | rand.Uint32() // 0 is the turn, and the mark is an OID; few servers have come that far
		var row epochRow
		var now origin
		alive := false
		if err := c.readEpoch(ctx, &row, &now, &alive); err != nil {
			return err
		}
		if int64(c.life) == now.sequence {
			return errors.New("the sign of life is the mark of tokens, by chance: this session must end")
		}
		if alive { // else somebody has this one
			return c.beginEpoch(ctx, row, now)
		}
	}
}

func (c *conn) readEpoch(ctx context.Context, row *epochRow, now *origin, alive *bool) error {
	r, err := c.exec(ctx, "SELECT (SELECT system_identifier FROM pg_control_system()),"+
		" (SELECT oid FROM pg_database WHERE datname = current_database()),"+
		fmt.Sprintf(" %s::regclass::oid,", literal(c.d.sequence()))+
		" ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int8,"+
		" "+startOfServer+","+
		fmt.Sprintf(" pg_try_advisory_lock(%s),", lifePair(c.life))+
		" e.epoch, e.system, e.database, e.sequence, e.timeline FROM "+c.d.table()+" e")
	if err != nil {
		return err
	}
	if len(r.rows) != 1 {
		return fmt.Errorf("%s has %d rows, and must have one", c.d.table(), len(r.rows))
	}
	*now = origin{system: r.int(0, 0), database: r.int(0, 1), sequence: r.int(0, 2), timeline: r.int(0, 3)}
	*alive = r.bool(0, 5)
	*row = epochRow{epoch: r.int(0, 6), origin: origin{system: r.int(0, 7), database: r.int(0, 8), sequence: r.int(0, 9), timeline: r.int(0, 10)}}
	c.place = place{*now, r.int(0, 4)}
	return nil
}

// startOfServer tells a server from its copies, and from its lives before. It is a number, as the text of a moment depends on settings.
const startOfServer = "(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::int8"

// beginEpoch raises the epoch where it has to be, before any token is taken.
func (c *conn) beginEpoch(ctx context.Context, row epochRow, now origin) error {
	for range 10 {
		next := row.at(now)
		if next == row {
			c.epoch = row.epoch
			c.next = fmt.Sprintf("nextval(%d::regclass)", now.sequence)
			return nil
		}
		if _, err := token(next.epoch, 1); err != nil {
			return err
		}
		// On the standbys too, if there are synchronous ones: who is promoted should know of it. Others who have just done the same
		// leave nothing to update.
		for _, sql := range []string{
			"SET synchronous_commit = on",
			fmt.Sprintf("UPDATE %s SET epoch = %d, system = %d, database = %d, sequence = %d, timeline = %d WHERE epoch = %d AND timeline = %d",
				c.d.table(), next.epoch, next.system, next.database, next.sequence, next.timeline, row.epoch, row.timeline),
			"SET synchronous_commit = local",
		} {
			if _, err := c.exec(ctx, sql); err != nil {
				return err
			}
		}
		r, err := c.exec(ctx, "SELECT epoch, system, database, sequence, timeline FROM "+c.d.table())
		if err != nil {
			return err
		}
		row = epochRow{epoch: r.int(0, 0), origin: origin{system: r.int(0, 1), database: r.int(0, 2), sequence: r.int(0, 3), timeline: r.int(0, 4)}}
	}
	return errors.New("the epoch of the fencing tokens doesn't come to rest: others change it all the time")
}

// skip moves the sequence on, unless that has been done in this life of the server; skip.go says why, and why so.
func (c *conn) skip(ctx context.Context, connections int) error {
	turn, mark := pair(ownSpace, 0), pair(ownSpace, int32(c.place.sequence)) //nolint:gosec // an OID has 32 bits
	values := fmt.Sprintf("(SELECT max(%s) FROM generate_series(1, %d))", c.next, skipStep(connections))
	step := "BEGIN; SELECT CASE WHEN pg_try_advisory_lock(" + mark + ") THEN CASE WHEN pg_advisory_unlock(" + mark + ") THEN " + values + " END END; COMMIT; "
	_, err := c.exec(ctx, "BEGIN; SELECT pg_advisory_lock("+turn+"); COMMIT; "+strings.Repeat(step, skipSteps)+
		"BEGIN; SELECT pg_advisory_lock_shared("+mark+"); SELECT pg_advisory_unlock("+turn+"); COMMIT")
	return err
}

func (d *pgDriver) sequence() string { return quoted(d.schema) + ".locker_token" }
func (d *pgDriver) table() string    { return quoted(d.schema) + ".locker_epoch" }

// literal is a text as SQL.
func literal(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(text, `\`) {
		quoted = " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

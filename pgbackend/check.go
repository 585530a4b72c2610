package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// What the server must be like is found out when a Locker is opened, and again with each connection, which may lead elsewhere.

// server is what is found out when a Locker is opened.
type server struct {
	version int  // 170002 is 17.2
	ttl     bool // it has idle_session_timeout
}

// facts is what a connection says of the server that it leads to.
type facts struct {
	pid         int64
	version     int
	standby     bool
	readOnly    bool
	connections int // max_connections
	perTx       int // max_locks_per_transaction
	prepared    int // max_prepared_transactions
}

func (c *conn) look(ctx context.Context) (facts, error) {
	r, err := c.exec(ctx, "SELECT pg_backend_pid(), current_setting('server_version_num'), pg_is_in_recovery(),"+
		" current_setting('transaction_read_only') = 'on', current_setting('max_connections'),"+
		" current_setting('max_locks_per_transaction'), current_setting('max_prepared_transactions')")
	if err != nil {
		return facts{}, err
	}
	return facts{
		pid: r.int(0, 0), version: int(r.int(0, 1)), standby: r.bool(0, 2), readOnly: r.bool(0, 3),
		connections: int(r.int(0, 4)), perTx: int(r.int(0, 5)), prepared: int(r.int(0, 6)),
	}, nil
}

// oldest is the first version that is supported: the last that has what the statements use (sha256 is for operators alone).
const (
	oldest       = 110000
	firstWithTTL = 140000 // idle_session_timeout
)

func (f facts) check() error {
	switch {
	case f.version < oldest:
		return fmt.Errorf("%w: Postgres %d is older than %d", errors.ErrUnsupported, f.version/10000, oldest/10000)
	case f.standby:
		return errors.New("the server is a standby, which takes no writes; locks are made on the primary (target_session_attrs=read-write finds it)")
	case f.readOnly:
		return errors.New("the server takes no writes here: default_transaction_read_only is on for the server, the database or the role")
	}
	return nil
}

// room is how many locks the shared lock table has room for, as documented.
func (f facts) room() int { return f.perTx * (f.connections + f.prepared) }

// checkPooler finds out whether there is a pooler between here and the server that gives each transaction another connection. It
// comes before any setting, because those would reach others there.
//
// The number by which a connection was introduced is that of its server process. A pooler introduces itself with one of its own, in
// all modes. Then a second test tells them apart: right after this one was used, and while it is not, another connection must not
// come to the same process in a transaction; and meanwhile this one must still lead to it. A pooler without sessions gives each the
// process that was free last, as a rule, so that fails at once, unless somebody else asks in between: hence the rounds.
func (c *conn) checkPooler(ctx context.Context, keyPID int64) error {
	if c.pid == keyPID || c.d.knowsPooler(c) {
		return nil
	}
	if until, limited := ctx.Deadline(); limited { // there must be time to say what is wrong
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(until)*3/4)
		defer cancel()
	}
	stream, _, err := c.d.dial(ctx)
	if err != nil {
		return fmt.Errorf("a second connection is needed to find out what kind of pooler there is: %w", err)
	}
	other := newWire(stream, func(error) {})
	defer func() { other.goodbye(ctx) }()
	for range poolerRounds {
		mixed, err := c.mixedWith(ctx, other)
		if mixed {
			return fmt.Errorf("%w; connect to the server itself, or to a pool in session mode", ErrPooler)
		}
		if err != nil {
			return fmt.Errorf("what kind of pooler there is can't be found out; it may have no second connection to the server: %w", err)
		}
	}
	c.d.trustPooler(c)
	return nil
}

const poolerRounds = 12

// knowsPooler notes that c leads through a pooler, and reports whether that has passed the test. It counts until the last connection
// through it has ended: then it may have been restarted as another kind. Until then no connection needs a second one.
func (d *pgDriver) knowsPooler(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.pooler = c.net.RemoteAddr().String()
	_, known := d.poolers[c.pooler]
	return known
}

func (d *pgDriver) trustPooler(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.conns[c]; open {
		d.poolers[c.pooler] = struct{}{}
	}
}

func (c *conn) mixedWith(ctx context.Context, other *wire) (bool, error) {
	if mixed, err := c.hasMoved(ctx); mixed || err != nil {
		return mixed, err
	}
	theirs, err := other.do(ctx, "BEGIN; SELECT pg_backend_pid()")
	if err != nil {
		return strings.Contains(err.Error(), "statement pooling"), err // PgBouncer in statement mode refuses transactions
	}
	if theirs.int(0, 0) == c.pid {
		return true, nil
	}
	if mixed, err := c.hasMoved(ctx); mixed || err != nil {
		return mixed, err
	}
	_, err = other.do(ctx, "COMMIT")
	return false, err
}

// hasMoved reports whether c leads to another process than at first.
func (c *conn) hasMoved(ctx context.Context) (bool, error) {
	mine, err := c.exec(ctx, "SELECT pg_backend_pid()")
	if err != nil {
		return false, err
	}
	return mine.int(0, 0) != c.pid, nil
}

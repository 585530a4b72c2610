package pgbackend

import (
	"context"
	"errors"
	"fmt"
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

package pgbackend

import (
	"context"
	"errors"
	"fmt"
)

// What the server must be like is found out when a Locker is opened, and again with each connection, which may lead elsewhere.

// facts is what a connection says of the server that it leads to.
type facts struct {
	pid         int64
	version     int // 170002 is 17.2
	standby     bool
	readOnly    bool
	connections int // max_connections
	perTx       int // max_locks_per_transaction
	prepared    int // max_prepared_transactions
}

// look asks before search_path is set, so the names are qualified, and what is compared is compared here: a role's search_path may
// put functions and operators of somebody else first.
func (c *conn) look(ctx context.Context) (facts, error) {
	const setting = ", pg_catalog.current_setting"
	r, err := c.exec(ctx, "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery()"+
		setting+"('server_version_num')"+setting+"('transaction_read_only')"+setting+"('max_connections')"+
		setting+"('max_locks_per_transaction')"+setting+"('max_prepared_transactions')")
	if err != nil {
		return facts{}, err
	}
	return facts{
		pid: r.int(0, 0), standby: r.bool(0, 1), version: int(r.int(0, 2)), readOnly: r.value(0, 3) == "on",
		connections: int(r.int(0, 4)), perTx: int(r.int(0, 5)), prepared: int(r.int(0, 6)),
	}, nil
}

// oldest is the first version that is supported. Before it there is no idle_session_timeout: TCP alone would end the session of a
// holder that is cut off, and the holder could not know when.
const oldest = 140000

func (f facts) check() error {
	switch {
	case f.version < oldest:
		return fmt.Errorf("%w: the server is Postgres %d, and locks need %d or later", errors.ErrUnsupported, f.version/10000, oldest/10000)
	case f.standby:
		return errors.New("the server is a standby, which takes no writes; locks are made on the primary (target_session_attrs=read-write finds it)")
	case f.readOnly:
		return errors.New("the server takes no writes here: default_transaction_read_only is on for the server, the database or the role")
	}
	return nil
}

// room is how many locks the shared lock table has room for, as documented.
func (f facts) room() int { return f.perTx * (f.connections + f.prepared) }

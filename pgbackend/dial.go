package pgbackend

import (
	"context"
	"net"
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
		return nil, 0, overdue(inOneLine(err))
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

package pgsession

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// Conn is a connection on which nothing is under way, taken over from pgx.
type Conn struct {
	stream net.Conn
	keyPID int64
}

// Close ends a connection that no Session was made of.
func (c *Conn) Close() { _ = c.stream.Close() }

// Dial makes a connection as a pool of this configuration would: with its ConnConfig, BeforeConnect
// and AfterConnect.
func Dial(ctx context.Context, config *pgxpool.Config) (*Conn, error) {
	cfg := config.ConnConfig.Copy()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, cfg); err != nil {
			return nil, overdue(err)
		}
	}
	if cfg.RuntimeParams == nil {
		cfg.RuntimeParams = make(map[string]string)
	}
	if _, named := cfg.RuntimeParams["application_name"]; !named {
		cfg.RuntimeParams["application_name"] = DefaultApplication
	}
	if cfg.ValidateConnect == nil && Hosts(cfg) > 1 { // the first one that answers may be a standby
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	made, err := connect(ctx, cfg)
	if err != nil {
		return nil, overdue(err)
	}
	if config.AfterConnect != nil {
		err = config.AfterConnect(ctx, made)
	}
	if err == nil {
		err = made.PgConn().SyncConn(ctx)
	}
	if err != nil {
		_ = made.PgConn().Conn().Close()
		return nil, overdue(err)
	}
	return &Conn{made.PgConn().Conn(), int64(made.PgConn().PID())}, nil
}

// DefaultApplication is the application_name of a connection whose configuration has none.
const DefaultApplication = "locker"

// overdue is kit.Overdue, and keeps the text: it says which host has not answered.
func overdue(err error) error {
	if late := kit.Overdue(err); errors.Is(late, locker.ErrNoAnswer) && !errors.Is(err, locker.ErrNoAnswer) {
		return fmt.Errorf("%w (%s)", late, err.Error())
	}
	return err
}

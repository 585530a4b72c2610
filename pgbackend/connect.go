package pgbackend

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// connect makes a connection that is ready for the locks of a pool: one that is to be shared, or a
// waiter's.
func (d *pgDriver) connect(ctx context.Context, p *pool, waiter bool) (*conn, error) {
	for try := 1; ; try++ {
		made, err := d.dial(ctx)
		if err != nil {
			return nil, err
		}
		c := d.newConn(p, made, waiter)
		if !d.addConn(c) {
			c.End(errNotNeeded)
			return nil, errNotNeeded
		}
		if c.Err() != nil { // before it was noted
			d.forgetConn(c)
		}
		server, err := c.Look(ctx)
		stillborn := pgsession.Ended(err)
		if err == nil {
			err = c.setUp(ctx, server, waiter)
		}
		if err == nil {
			return c, nil
		}
		c.End(errNotNeeded)
		if !stillborn && !errors.Is(err, errNoFunctions) || try == pgsession.MaxStillborn {
			return nil, explain(kit.Overdue(err), d.schema)
		}
	}
}

func (d *pgDriver) dial(ctx context.Context) (*pgsession.Conn, error) {
	return pgsession.Dial(ctx, d.config)
}

// nameApplication sets the name by which the server shows who is connected, unless the configuration has one.
// The server cuts the name to 63 bytes, and has only ASCII characters in it.
func nameApplication(config *pgxpool.Config, name string) {
	params := &config.ConnConfig.RuntimeParams
	if _, named := (*params)["application_name"]; named {
		return
	}
	if *params == nil {
		*params = make(map[string]string, 1)
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
	(*params)["application_name"] = name[:min(len(name), maxApplicationName)]
}

const (
	applicationPrefix  = "locker " // and HOST/PID/PROGRAM
	maxApplicationName = 63
)

func (d *pgDriver) connectTime() time.Duration { return pgsession.ConnectLimit(d.config) }

func (c *conn) setUp(ctx context.Context, server pgsession.Server, waiter bool) error {
	if err := checkServer(server); err != nil {
		return err
	}
	c.server = server
	if err := c.d.poolers.Check(ctx, c.Session, c.d.dial); err != nil {
		return err
	}
	if err := c.Prepare(ctx); err != nil {
		return err
	}
	if !waiter {
		if err := c.probeFunctions(ctx); err != nil {
			return err
		}
		c.makeLanes()
		leases, err := c.d.schema.make(ctx, c.Session, &c.d.knownEpoch)
		if err != nil {
			return err
		}
		c.readsLabels.Store(leases.reads)
		c.takesLabels.Store(leases.writes && !c.d.labels.off)
	}
	if err := c.tokens.begin(ctx); err != nil {
		return err
	}
	if err := c.tokens.advance(ctx); err != nil {
		return err
	}
	c.d.knownEpoch.raise(c.tokens.epoch)
	return c.CheckSettings(ctx)
}

// checkServer refuses a server that can't be used. It is called for each connection, because a
// later one may lead elsewhere.
func checkServer(s pgsession.Server) error {
	// Before 14 there is no idle_session_timeout: TCP alone would end the session of a holder that
	// is cut off, and the holder could not know when.
	if err := kit.CheckVersion("Postgres", strconv.Itoa(s.Version/10000), 14); err != nil {
		return err
	}
	switch {
	case s.Standby:
		return errors.New("the server is a standby, which takes no writes: want the primary, for example by target_session_attrs=read-write")
	case s.ReadOnly:
		return errors.New("the server takes no writes here: default_transaction_read_only is on for the server, the database or the role")
	}
	return nil
}

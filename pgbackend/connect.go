package pgbackend

import (
	"context"
	"time"

	"github.com/fencedlock/locker/internal/pgsession"
)

// connect makes a connection that is ready for locks: one that is to be shared, or a waiter's.
func (d *pgDriver) connect(ctx context.Context, ttl time.Duration, waiter bool) (*conn, error) {
	for try := 1; ; try++ {
		made, err := d.dial(ctx)
		if err != nil {
			return nil, err
		}
		c := &conn{d: d, ttl: ttl, claims: make(map[key]*lock), looking: make(chan struct{}, 1)}
		c.Session = pgsession.Start(made, pgsession.Settings{IdleTimeout: ttl, Blocks: waiter}, c.ended)
		c.base.Store(int64(c.LastAnswered()))
		if !d.addConn(c) {
			c.End(pgsession.ErrClosed)
			return nil, pgsession.ErrClosed
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
		c.End(pgsession.ErrClosed)
		if !stillborn || try == pgsession.MaxStillborn {
			return nil, explain(pgsession.Overdue(err), d.schema)
		}
	}
}

func (d *pgDriver) dial(ctx context.Context) (*pgsession.Conn, error) {
	return pgsession.Dial(ctx, d.pool)
}

func (d *pgDriver) connectTime() time.Duration { return pgsession.ConnectLimit(d.pool) }

func (c *conn) setUp(ctx context.Context, server pgsession.Server, waiter bool) error {
	if err := checkServer(server); err != nil {
		return err
	}
	c.d.learn(server)
	if err := c.d.poolers.Check(ctx, c.Session, c.d.dial); err != nil {
		return err
	}
	if err := c.Prepare(ctx); err != nil {
		return err
	}
	if !waiter {
		if err := c.makeObjects(ctx); err != nil {
			return err
		}
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	if err := c.reach(ctx); err != nil {
		return err
	}
	if err := c.CheckSettings(ctx); err != nil {
		return err
	}
	if !waiter {
		c.d.forgetRoom()
	}
	return nil
}

func (d *pgDriver) sequence() string { return pgsession.Quoted(d.schema) + ".locker_token" }
func (d *pgDriver) table() string    { return pgsession.Quoted(d.schema) + ".locker_epoch" }

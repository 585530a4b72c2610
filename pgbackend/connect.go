package pgbackend

import (
	"context"
	"strings"
	"time"
)

// maxStillborn is how often a connection is made whose session the server was just ending. A pooler may have several of those to give.
const maxStillborn = 10

// connect makes a connection that is ready for locks: one that is to be shared, or a waiter's.
func (d *pgDriver) connect(ctx context.Context, ttl time.Duration, waiter bool) (*conn, error) {
	for try := 1; ; try++ {
		stream, keyPID, err := d.dial(ctx)
		if err != nil {
			return nil, err
		}
		c := &conn{d: d, ttl: ttl, claims: make(map[key]*lock), looking: make(chan struct{}, 1), burial: make(chan struct{}, 1)}
		outlast(stream, c.tcpLimit())
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
	c.d.learn(now)
	if err := c.checkPooler(ctx, keyPID); err != nil {
		return err
	}
	if err := c.set(ctx, waiter); err != nil {
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
	if err := c.finish(ctx, waiter); err != nil {
		return err
	}
	if !waiter {
		c.d.forgetRoom()
	}
	return nil
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

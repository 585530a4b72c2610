package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/pgsession"
)

// conn is a connection to the database that locks hang on: shared by the leases of one TTL, or a waiter's own. It has one session of
// the server, and when that ends so do its locks.
type conn struct {
	*pgsession.Session
	d     *pgDriver
	ttl   time.Duration // the server ends the session after this silence
	epoch int64         // of tokens that are taken here
	seq   string        // SQL: the sequence
	next  string        // SQL: its next value
	limit atomic.Int64  // values from here on may only be used when that was written down (see reach.go)
	place place

	waits   bool         // it is a waiter's
	base    atomic.Int64 // the last one that a renewal, or the grant to a waiter, has reported for its leases: a driver.Instant
	overdue atomic.Bool  // the last renewal had no answer in time
	leases  atomic.Int32 // that hang on this connection

	looking chan struct{} // full while somebody looks at the lock table

	mu      sync.Mutex
	claims  map[key]*lock
	retired bool       // nothing is claimed any more
	asking  bool       // requests are under way
	waiting []*request // and these came meanwhile
}

// place tells servers and their lives apart: what one says has no meaning for another.
type place struct {
	origin
	started int64 // when the server was started, in µs
}

// claim reserves a key of this connection for l. Advisory locks are reentrant: without that, a second acquisition on the
// connection would be granted what the first one has, or has left behind. The error is ErrHeld when another has the key, and else says
// that the connection has ended, or is about to.
func (c *conn) claim(l *lock) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired { // and has ended by now, maybe
		return errRetired
	}
	if err := c.Err(); err != nil {
		return err
	}
	if other := c.claims[l.key]; other != nil && other != l {
		return locker.ErrHeld
	}
	c.claims[l.key] = l
	return nil
}

// isLeased reports whether whoever has claimed a key has a lease.
func (c *conn) isLeased(k key) bool {
	c.mu.Lock()
	l := c.claims[k]
	c.mu.Unlock()
	return l != nil && l.isHeld()
}

// unclaim gives a key back when it is certain that the connection doesn't hold it.
func (c *conn) unclaim(l *lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claims[l.key] == l {
		delete(c.claims, l.key)
	}
}

// ended tells all that hang on the connection.
func (c *conn) ended(cause error) {
	c.mu.Lock()
	locks := make([]*lock, 0, len(c.claims))
	for _, l := range c.claims {
		locks = append(locks, l)
	}
	c.mu.Unlock()
	c.d.forgetConn(c)
	for _, l := range locks {
		l.connectionEnded(c, cause)
	}
}

// exec carries a statement out, and gives the connection up when it has been silent for so long that nothing is lost by that.
func (c *conn) exec(ctx context.Context, sql string) (*pgsession.Call, error) {
	return c.watch(c.Exec(ctx, sql))
}

// execUrgent is exec for renewals.
func (c *conn) execUrgent(ctx context.Context, sql string) (*pgsession.Call, error) {
	return c.watch(c.ExecUrgent(ctx, sql))
}

func (c *conn) watch(r *pgsession.Call, err error) (*pgsession.Call, error) {
	if errors.Is(err, pgsession.ErrNoAnswer) {
		c.giveUp()
	}
	return r, err
}

// giveUp ends a connection that doesn't answer, unless a lease may still be alive on it: those end a TTL after the last statement
// that was answered, which was sent before the one that hangs.
func (c *conn) giveUp() {
	silence := c.Silence()
	if c.leases.Load() == 0 && silence >= maxCall/2 || silence > c.ttl {
		c.End(errSilent)
	}
}

// stands asks whether the session is still the one that it was, for the price of a round trip. Its answer restarts the server's
// timeout, so the moment at which it was sent is a base for all locks of the connection.
func (c *conn) stands(ctx context.Context) (driver.Instant, error) {
	r, err := c.askPID(ctx, "")
	if err != nil {
		return 0, err
	}
	return r.Sent, nil
}

// prove is stands with a new value of the sequence.
func (c *conn) prove(ctx context.Context) (base driver.Instant, value int64, err error) {
	r, err := c.askPID(ctx, ", "+c.next)
	if err != nil {
		return 0, 0, err
	}
	return r.Sent, r.Int(0, 1), nil
}

func (c *conn) askPID(ctx context.Context, more string) (*pgsession.Call, error) {
	r, err := c.execUrgent(ctx, "SELECT pg_backend_pid()"+more)
	if err != nil {
		return nil, err
	}
	if pid := r.Int(0, 0); pid != c.PID {
		c.End(fmt.Errorf("it leads to another session of the server (%d, not %d)", pid, c.PID))
		return nil, c.Err()
	}
	return r, nil
}

// lostWith makes a loss of the reason for which a connection has ended.
func lostWith(cause error) error { return fmt.Errorf("%w: %w", locker.ErrLost, cause) }

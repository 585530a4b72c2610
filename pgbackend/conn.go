package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// conn is a connection to the database that locks hang on: shared by the leases of one TTL, or a waiter's own. It has one session of
// the server, and when that ends so do its locks.
type conn struct {
	*wire
	d       *pgDriver
	ttl     time.Duration // the server ends the session after this silence
	version int           // of the server
	epoch   int64         // of tokens that are taken here
	seq     string        // SQL: the sequence
	next    string        // SQL: its next value
	limit   atomic.Int64  // values from here on may only be used when that was written down (see reach.go)
	life    uint32        // the sign of life: as long as somebody has the lock (ownSpace, life), the session stands
	place   place

	waits   bool         // it is a waiter's
	near    bool         // it leads to this machine: tcp_user_timeout may be missing
	pooler  string       // the address of the pooler that it leads through; the driver's mutex guards it
	base    atomic.Int64 // the last one that a renewal, or the grant to a waiter, has reported for its leases: a driver.Instant
	overdue atomic.Bool  // the last renewal had no answer in time
	leases  atomic.Int32 // that hang on this connection

	looking chan struct{} // full while somebody looks at the lock table

	mu      sync.Mutex
	claims  map[key]*lock
	retired bool          // nothing is claimed any more
	asking  bool          // requests are under way
	waiting []*request    // and these came meanwhile
	burial  chan struct{} // full while somebody finds out whether the session has ended
	buried  bool
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
	if err := c.err(); err != nil {
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
func (c *conn) exec(ctx context.Context, sql string) (*call, error) { return c.watch(c.do(ctx, sql)) }

// execUrgent is exec for renewals.
func (c *conn) execUrgent(ctx context.Context, sql string) (*call, error) {
	return c.watch(c.doUrgent(ctx, sql))
}

func (c *conn) watch(r *call, err error) (*call, error) {
	if errors.Is(err, errNoAnswer) {
		c.giveUp()
	}
	return r, err
}

// giveUp ends a connection that doesn't answer, unless a lease may still be alive on it: those end a TTL after the last statement
// that was answered, which was sent before the one that hangs.
func (c *conn) giveUp() {
	silence := c.silence()
	if c.leases.Load() == 0 && silence >= maxCall/2 || silence > c.ttl {
		c.end(errSilent)
	}
}

// stands asks whether the session is still the one that it was, for the price of a round trip. Its answer restarts the server's
// timeout, so the moment at which it was sent is a base for all locks of the connection.
func (c *conn) stands(ctx context.Context) (driver.Instant, error) {
	r, err := c.askPID(ctx, "")
	if err != nil {
		return 0, err
	}
	return r.sent, nil
}

// prove is stands with a new value of the sequence.
func (c *conn) prove(ctx context.Context) (base driver.Instant, value int64, err error) {
	r, err := c.askPID(ctx, ", "+c.next)
	if err != nil {
		return 0, 0, err
	}
	return r.sent, r.int(0, 1), nil
}

func (c *conn) askPID(ctx context.Context, more string) (*call, error) {
	r, err := c.execUrgent(ctx, "SELECT pg_backend_pid()"+more)
	if err != nil {
		return nil, err
	}
	if pid := r.int(0, 0); pid != c.pid {
		c.end(fmt.Errorf("it leads to another session of the server (%d, not %d)", pid, c.pid))
		return nil, c.err()
	}
	return r, nil
}

// value is one field of the answer; "" is NULL, or a field that isn't there.
func (c *call) value(row, column int) string {
	if row >= len(c.rows) || column >= len(c.rows[row]) {
		return ""
	}
	return c.rows[row][column]
}

// int is a field that is a number; 0 if it is none.
func (c *call) int(row, column int) int64 {
	n, err := strconv.ParseInt(c.value(row, column), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (c *call) bool(row, column int) bool { return c.value(row, column) == "t" }

// lostWith makes a loss of the reason for which a connection has ended.
func lostWith(cause error) error { return fmt.Errorf("%w: %w", locker.ErrLost, cause) }

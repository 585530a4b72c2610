package pgbackend

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// conn is a connection to the database that leases are attached to: the one that the leases of a
// TTL share, or a waiter's. It has one session of the server. When the session ends, so do its
// locks.
//
// What ends the use of a connection, and what each keeps. After all of them no further key is reserved.
//
//	         when                                         leases, waits, requests   the connection ends
//	resign   a row is left, or the sequence is gone       go on                     with its last key, by leave; without keys a TTL later
//	giveUp   its epoch is over                            go on                     the same; without keys at once, by End
//	leave    no key is reserved any more                  there are none            in the background, by Close
//	Close    the Locker or the pool is closed             are lost                  when the server has confirmed it, or ctx ends
//	End      it has failed                                are lost                  at once
//
// A connection that is silent is passed over for a while, which ends nothing: see silence.go.
type conn struct {
	*pgsession.Session
	d      *pgDriver
	pool   *pool
	server pgsession.Server
	tokens *tokenSource
	calls  *kit.Lanes[*request, reply] // of requests by function calls; of a shared connection, from setUp on
	groups *kit.Lanes[*request, reply] // of requests by statements; the same

	takesFunctions bool        // the server gets function calls, whatever is in between; known before the first request
	readsLabels    atomic.Bool // the table of leases can be read here; of a shared connection
	takesLabels    atomic.Bool // rows can be written to it; the same

	rowsPaused driver.Instant  // until then no statement about rows is executed here; the mutex of labels guards this
	rowsLate   *pgsession.Call // the last such statement whose answer has not come in time; the same

	isWaiter bool         // it is a waiter's; the driver's mutex guards this
	overdue  atomic.Bool  // the last renewal had no answer in time
	silent   atomic.Bool  // a call had no answer, and the server had been silent: see isSilent
	leases   atomic.Int32 // that are attached to this connection

	mu       sync.Mutex
	reserved map[key]*lock // the lock that has reserved a key
	resigned bool          // nothing more is reserved
}

func (d *pgDriver) newConn(p *pool, made *pgsession.Conn, waiter bool) *conn {
	session := pgsession.New(made, pgsession.Settings{IdleTimeout: p.ttl, Blocks: waiter})
	c := &conn{Session: session, d: d, pool: p, reserved: make(map[key]*lock), rowsPaused: driver.Stamp()}
	c.tokens = &tokenSource{session: c.Session, exec: c.exec, schema: d.schema, known: &d.knownEpoch, noting: make(chan struct{}, 1)}
	c.Start(c.ended)
	return c
}

// reserve reserves a key of this connection for l. Advisory locks are reentrant: without that, a
// second acquisition on the connection would be granted what the first one has, or has left there.
// The error is ErrHeld when another lock has reserved the key, and otherwise says that the
// connection has ended, or has resigned.
func (c *conn) reserve(l *lock) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resigned { // and has ended by now, maybe
		return errResigned
	}
	if err := c.Err(); err != nil {
		return err
	}
	if other := c.reserved[l.key]; other != nil && other != l {
		return locker.ErrHeld
	}
	c.reserved[l.key] = l
	return nil
}

// resign makes sure that nothing more will be reserved on a connection. Its leases stay; when the
// last of them is released, the connection ends. It reports whether nothing is reserved there: then
// the caller ends the connection, or else the server does, after a TTL.
func (c *conn) resign() (isUseless bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resigned = true
	return len(c.reserved) == 0
}

// isOpen reports whether further leases can be attached to c, which may be nil.
func (c *conn) isOpen() bool { return c != nil && c.Err() == nil && !c.hasResigned() }

func (c *conn) hasResigned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resigned
}

// isLeased reports whether the lock that has reserved a key is leased.
func (c *conn) isLeased(k key) bool {
	c.mu.Lock()
	l := c.reserved[k]
	c.mu.Unlock()
	if l == nil {
		return false
	}
	attached, _, _ := l.attachment()
	return attached != nil
}

// hasReserved reports whether l has reserved its key.
func (c *conn) hasReserved(l *lock) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reserved[l.key] == l
}

// unreserve gives a key back when it is certain that the connection doesn't hold it. A connection
// that has resigned ends with its last key: no pool has it any more.
func (c *conn) unreserve(l *lock) {
	if c.forgetKey(l) {
		c.leave()
	}
}

// forgetKey removes a key, and reports whether the connection is of no more use.
func (c *conn) forgetKey(l *lock) (isUseless bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reserved[l.key] != l {
		return false
	}
	delete(c.reserved, l.key)
	return c.resigned && len(c.reserved) == 0
}

// ended notifies all leases that are attached to the connection. Session calls it, when the
// connection has ended.
func (c *conn) ended(cause error) {
	c.mu.Lock()
	locks := make([]*lock, 0, len(c.reserved))
	for _, l := range c.reserved {
		locks = append(locks, l)
	}
	c.mu.Unlock()
	c.d.forgetConn(c)
	for _, l := range locks {
		l.connectionEnded(c, cause)
	}
}

// leave ends a connection on which nothing is held. The server's confirmation is waited for in the
// background, until the Locker is closed. Rows of its last leases go before: later there may be no other
// connection to that server.
func (c *conn) leave() {
	begun := c.d.tasks.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, closeLimit)
		defer cancel()
		if c.takesLabels.Load() {
			_, _ = c.exec(ctx, c.d.schema.deleteRowsOf([]uint32{c.tokens.presence})) // answered, or a pooler would drop its connection
		}
		c.Close(ctx)
	})
	if !begun {
		c.End(errNotNeeded)
	}
}

// confirm asks whether the session is still the one that it was, for the price of a round trip. The
// answer restarts the server's timeout, so the moment at which the statement was sent is a base for
// all leases of the connection.
func (c *conn) confirm(ctx context.Context) (driver.Instant, error) {
	r, err := c.askPID(ctx, "")
	if err != nil {
		return 0, err
	}
	return r.Sent, nil
}

// awaitEarlier waits until all that was sent before has its answer.
func (c *conn) awaitEarlier(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	_, err := c.confirm(ctx)
	return err
}

// confirmAndTake is confirm with a new value of the sequence.
func (c *conn) confirmAndTake(ctx context.Context) (base driver.Instant, value int64, err error) {
	r, err := c.askPID(ctx, ", "+c.tokens.next)
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

// asLoss makes a loss of the reason for which a connection has ended.
func asLoss(cause error) error { return fmt.Errorf("%w: %w", locker.ErrLost, cause) }

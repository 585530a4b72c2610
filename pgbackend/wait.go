package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/pgsession"
)

// A waiter has a connection, on which a statement blocks, first at the gate of the name, then at
// the lock. The session that is past the gate is the only one that waits for the lock itself;
// move.go says why.

// await waits for the grant on a waiter's connection. When that ends, or its epoch is over, the wait
// begins again, with another acquisition. So it does when the server ends the statement because of a
// deadlock: a transaction that waits at the gate (LockTx) may be in one with a transaction that has the
// lock. This wait is no part of it once it is removed, because it begins again at the end of the queue,
// with nothing that others wait for. The server looks for a deadlock only after deadlock_timeout, and
// the engine makes a pause, so this doesn't spin.
func (l *lock) await(ctx context.Context) (driver.Grant, error) {
	var none driver.Grant
	c, err := l.takeWaiter(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		return none, &driver.HeldError{} // no connection is to be had: it polls, with the pauses of the engine
	}
	blocked, err := l.block(ctx, c)
	if err == nil {
		err = c.Wait(ctx, blocked)
	}
	var grant driver.Grant
	if err == nil {
		grant, err = l.makeGrant(ctx, c, blocked)
	}
	switch {
	case err == nil:
		return grant, nil
	case c.Err() != nil:
		l.notifyLost(asLoss(c.Err()))
	case errors.Is(err, errResigned), c.isOfOldEpoch(), pgsession.Says(err, codeDeadlock):
		l.notifyLost(asLoss(err))
	case ctx.Err() != nil:
		return none, context.Cause(ctx)
	}
	return none, tableIsFull(err)
}

// block begins the statement that waits. While it is blocked the server ends a session whose client
// answers no keepalives. From the grant on there may be a lease, so that must not happen any more:
// it is switched off by the same statement, before the holder can know of the grant.
func (l *lock) block(ctx context.Context, c *conn) (*pgsession.Call, error) {
	if c.isOfOldEpoch() {
		c.End(errOldEpoch)
		return nil, c.Err()
	}
	if err := c.reserve(l); err != nil {
		return nil, err
	}
	if err := l.d.labels.clear(ctx, c, l); err != nil {
		c.unreserve(l)
		return nil, err
	}
	floor := l.d.largest.get()
	blocked, err := c.Begin(ctx, fmt.Sprintf("SELECT CASE WHEN %s THEN CASE WHEN pg_advisory_lock(%s) IS NOT NULL"+
		" THEN CASE WHEN pg_advisory_lock(%s) IS NOT NULL THEN CASE WHEN %s THEN %s END END END END, %s",
		c.BeforeBlocking(), l.key.gate(), l.key.lock(), c.AfterBlocking(), c.tokens.next, pgsession.TCPUserTimeout))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked, l.floor, l.state = blocked, floor, notMoving
	return blocked, err
}

// takeWaiter returns the connection that was reserved.
func (l *lock) takeWaiter(ctx context.Context) (*conn, error) {
	if _, c, _ := l.attachment(); c != nil {
		return c, nil
	}
	c, err := l.pool.makeWaiter(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiter, l.queued = c, err == nil
	return c, err
}

// makeGrant makes a lease of a lock that was granted to a waiter. The server counts the TTL from
// the grant, but nobody here knows when that was: what is known is when the statement was sent, and
// that may be long ago. Then the connection is asked once more, and also if this Locker has seen a
// larger token since.
func (l *lock) makeGrant(ctx context.Context, c *conn, r *pgsession.Call) (driver.Grant, error) {
	var none driver.Grant
	if err := c.CheckTCP(r.Int(0, 1)); err != nil {
		return none, err
	}
	if c.isOfOldEpoch() { // since it waits: what it has is a lock of a former primary, maybe
		c.giveUp(errOldEpoch)
		return none, errOldEpoch
	}
	limited, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	l.mu.Lock()
	floor := l.floor
	l.mu.Unlock()
	base, value := r.Sent, r.Int(0, 0)
	if driver.Stamp().Sub(base) > l.ttl/20 || c.tokens.epoch<<valueBits|value < int64(l.d.largest.get()) {
		var err error
		floor = l.d.largest.get()
		if base, value, err = c.confirmAndTake(limited); err != nil {
			return none, err
		}
	}
	token, err := c.admit(limited, floor, value)
	if err != nil {
		return none, err
	}
	l.setState(onWaiter)
	l.noteGrant(token, base)
	return driver.Grant{Token: token, Base: base, TTL: l.ttl}, l.attach(c)
}

// removeFromWaiter takes back the wait, or what was granted by it, and gives the connection to the
// next waiter.
func (l *lock) removeFromWaiter(ctx context.Context) error {
	l.mu.Lock()
	c, blocked, state, queued := l.waiter, l.blocked, l.state, l.queued
	l.mu.Unlock()
	if c == nil {
		if queued {
			l.d.freeSlot()
			l.leftWaiter()
		}
		return nil
	}
	if c.Err() == nil && blocked != nil {
		if err := l.unblock(ctx, c, blocked); err != nil {
			c.End(err) // so that the server ends the session
		}
	}
	if c.Err() == nil && blocked != nil {
		if err := l.clear(ctx, c, state); err != nil {
			c.End(err)
		}
	}
	if c.Err() != nil {
		if blocked != nil {
			if err := l.terminate(ctx, c); err != nil {
				return err
			}
		}
		l.leftWaiter()
		return nil
	}
	l.returnWaiter(c)
	return nil
}

// returnWaiter gives the waiter's connection, on which nothing of l is left, to the next waiter.
func (l *lock) returnWaiter(c *conn) {
	c.unreserve(l)
	l.leftWaiter()
	l.pool.putIdle(c)
}

// leftWaiter notes that nothing of l is left on the waiter's connection.
func (l *lock) leftWaiter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiter, l.blocked, l.pending, l.queued, l.state = nil, nil, nil, false, notMoving
}

// A cancellation is repeated after firstRepeat, and then after twice as long each time, up to
// lastRepeat.
const (
	firstRepeat = 50 * time.Millisecond
	lastRepeat  = 500 * time.Millisecond
)

// unblock ends the wait of a statement. It doesn't matter here whether the statement has taken the
// lock anyway. The server drops a cancellation whose process is idle at that moment, and a process
// that hasn't read the statement yet is idle. So the cancellation is repeated until the statement
// has an outcome.
func (l *lock) unblock(ctx context.Context, c *conn, blocked *pgsession.Call) error {
	for pause := firstRepeat; ; pause = min(2*pause, lastRepeat) {
		select {
		case <-blocked.Done():
			return nil
		default:
		}
		if ctx.Err() != nil {
			return errSilent
		}
		if err := l.cancelStatement(ctx, c); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, pause)
		select {
		case <-blocked.Done():
		case <-limited.Done():
		}
		cancel()
	}
}

// cancelStatement asks the server, over the shared connection, to cancel what is under way on c. It
// fails if that leads to another server by now, where c's process is somebody else's.
func (l *lock) cancelStatement(ctx context.Context, c *conn) error {
	shared, err := l.d.anyConn(ctx, l.ttl)
	if err != nil {
		return err
	}
	if !shared.tokens.serverID.hasLocksOf(c.tokens.serverID) {
		return errOtherServer
	}
	_, err = shared.exec(ctx, fmt.Sprintf("SELECT %s ELSE pg_cancel_backend(%d) END", c.IfGone(), c.PID))
	return err
}

// clear gives back what the session has of l. In doubt that is everything, and the mark of the
// connections that take values (see sequence.go) and the presence lock are taken again by the same
// statement.
func (l *lock) clear(ctx context.Context, c *conn, s state) error {
	if s == onWaiter {
		_, err := c.exec(ctx, fmt.Sprintf("SELECT pg_advisory_unlock(%s), pg_advisory_unlock(%s)", l.key.lock(), l.key.gate()))
		if err == nil || !pgsession.Refused(err) {
			return err
		}
	}
	for range 3 {
		r, err := c.exec(ctx, fmt.Sprintf("SELECT CASE WHEN pg_advisory_unlock_all() IS NOT NULL"+
			" THEN CASE WHEN pg_advisory_lock_shared(%s) IS NOT NULL THEN pg_try_advisory_lock(%s) END END", c.tokens.mark(), c.Presence))
		switch {
		case err == nil && r.Bool(0, 0):
			return nil
		case err == nil:
			return fmt.Errorf("another session has the presence lock of process %d", c.PID)
		case !pgsession.Says(err, codeCancelled): // that was meant for the statement before
			return err
		}
	}
	return errSilent
}

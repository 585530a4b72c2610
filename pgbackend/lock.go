package pgbackend

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// lock is one acquisition. It may have left something on two connections: on the shared connection,
// where it has reserved its key, and on a waiter's connection.
type lock struct {
	d          *pgDriver
	key        key
	text       string // of its name and slot
	ttl        time.Duration
	label      driver.Label
	noWait     bool
	notifyLost func(cause error)

	moveLock chan struct{} // full while a goroutine moves the lock, or removes it

	mu           sync.Mutex      // guards the rest
	pool         *pool           // joined, and the name is in use; nil: neither
	queued       bool            // it waits on a waiter's connection, or is about to
	shared       *conn           // the shared connection on which it may be held
	sharedHas    holding         // what that may have of it
	late         lateGive        // the last request to give the lock back there
	waiter       *conn           // the waiter's connection on which it may be held, with its gate
	blocked      *pgsession.Call // the statement there that waits, or has waited
	floor        locker.Token    // the largest token before that statement was sent
	state        state
	pending      *pgsession.Call // the step of a move whose answer has not come in time
	missedOnce   bool            // the last check found the statement not blocked, and without a result
	attached     *conn           // the connection that the lease is attached to; nil: there is no lease
	alsoAttached *conn           // the shared connection, while the lease is attached to that as well
	token        locker.Token    // of the lease
	since        driver.Instant  // when the lock was granted, or the wait began
	base         driver.Instant  // of the lease: the last one that the grant, or a renewal, has reported

	row      row  // in the table of leases; the mutex of labels guards this
	hasNoRow bool // and gets none any more; the same
}

// maxTries is how often a request is sent when the connection turns out to be broken.
const maxTries = 2

// maxAsk bounds a call of Acquire that asks for the lock; it doesn't bound a call that waits in the queue
// (await). The engine allows 15 s for the first call. What that waits for, one after the other, may take
// longer: a connection, the end of a session that broke, another connection.
const maxAsk = 14 * time.Second

// Acquire asks once. If somebody has the lock, the next call waits on a waiter's connection. If
// there is none for it, the engine polls.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if _, _, queued := l.attachment(); queued {
		return l.await(ctx)
	}
	if ctx.Err() != nil {
		return driver.Grant{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, maxAsk)
	defer cancel()
	if err := l.join(ctx); err != nil {
		return driver.Grant{}, err
	}
	for tries := 0; ; {
		grant, again, err := l.tryShared(ctx)
		if !errors.Is(err, errResigned) { // which may happen any number of times
			tries++
		}
		if err == nil || !again || tries == maxTries || ctx.Err() != nil {
			return grant, err
		}
	}
}

// join registers the lock as a user of its name (names) and of the pool of its TTL (pools); leave
// takes that back.
func (l *lock) join(ctx context.Context) error {
	if l.pool != nil {
		return nil
	}
	p, err := l.d.pools.Join(ctx, l.ttl)
	if err != nil {
		return err
	}
	if err := l.d.names.join(l, l.d.waiterConns()); err != nil {
		l.d.pools.Leave(p)
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pool = p
	return nil
}

func (l *lock) leave() {
	l.mu.Lock()
	p := l.pool
	l.pool = nil
	l.mu.Unlock()
	if p != nil {
		l.d.names.leave(l)
		l.d.pools.Leave(p)
	}
}

// tryShared asks for the lock on the shared connection. again says that the caller may try again at
// once on a new connection: this one was broken, maybe for a long time. It doesn't after a request that
// has had no answer on a silent connection: what that may have got there must be removed first.
func (l *lock) tryShared(ctx context.Context) (g driver.Grant, again bool, err error) {
	if err := l.removeFromShared(ctx); err != nil { // what an earlier try may have left on a connection that broke
		return g, false, err
	}
	if l.pool.isLeasedInSilence(l.key) {
		return g, false, l.held(ctx)
	}
	c, err := l.pool.sharedConn(ctx)
	if err != nil {
		return g, false, err
	}
	err = c.reserve(l)
	// The lock that has reserved the key may have no answer yet. What is sent now is answered
	// after that lock's request.
	if errors.Is(err, locker.ErrHeld) && !c.isLeased(l.key) {
		if err := c.awaitEarlier(ctx); err != nil {
			return g, !c.isOpen() || c.isSilent(), err
		}
		err = c.reserve(l)
	}
	switch {
	case errors.Is(err, locker.ErrHeld):
		return g, false, l.held(ctx)
	case err != nil:
		return g, true, err
	}
	if err := l.d.labels.clear(ctx, c, l); err != nil {
		c.unreserve(l)
		return g, true, err
	}
	l.mu.Lock()
	l.shared, l.sharedHas = c, exclusively
	l.mu.Unlock()
	token, sent, err := c.try(ctx, l.key)
	switch {
	case errors.Is(err, kit.ErrNotSent):
		l.leftShared(c)
		return g, !c.isOpen() || c.isSilent() || errors.Is(err, errWithdrawn), err
	case err != nil:
		return g, !c.isOpen(), err
	case token == 0 && c.isOfOldEpoch(): // since it was asked: on the new primary the lock may be free
		l.leftShared(c)
		return g, true, errOldEpoch
	case token == 0:
		l.leftShared(c)
		return g, false, l.held(ctx)
	}
	l.noteGrant(token, sent)
	return driver.Grant{Token: token, Base: sent, TTL: l.ttl}, true, l.attach(c)
}

// noteGrant notes what is written about a lease, and what it was granted from.
func (l *lock) noteGrant(token locker.Token, base driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token, l.since, l.base = token, driver.Stamp(), base
}

// held is the answer to a request for a lock that somebody has.
func (l *lock) held(ctx context.Context) error {
	if l.noWait {
		return locker.ErrHeld
	}
	c, ok := l.d.waiterFor(ctx, l.pool)
	if !ok {
		return &driver.HeldError{} // it polls, with the pauses of the engine
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued, l.waiter, l.since = true, c, driver.Stamp()
	return driver.ErrQueued
}

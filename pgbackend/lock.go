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

// lock is one acquisition. It may have left something in two places: on the shared connection, where it claims its key, and on a
// waiter's connection of its own.
type lock struct {
	d        *pgDriver
	key      key
	name     string
	ttl      time.Duration
	noWait   bool
	tellLost func(cause error)

	settling chan struct{} // full while somebody moves the lock, or removes it

	mu      sync.Mutex      // guards the rest
	bound   bool            // the name is in use by it
	queued  bool            // it waits, or is about to, on a connection of its own
	at      *conn           // the shared connection on which it may be held
	atHas   holding         // what that may have of it
	own     *conn           // the waiter's connection on which it may be held, and its gate
	blocked *pgsession.Call // the statement on it that waits, or has waited
	floor   locker.Token    // and the largest token before it
	mode    mode            // what it has on its own connection
	moving  *pgsession.Call // the step of a move whose answer has not come in time
	unseen  bool            // the server didn't find it waiting at the last look, and had not answered either
	hangs   *conn           // whichever of the two the lease hangs on; nil: there is none
	heir    *conn           // the shared one, from step 3 of a move on: the lease hangs on that as well
}

// mode is what a waiter's connection has of its lock. From handingOver on, the shared connection has the lock, too, and the lease hangs on
// both.
type mode int

const (
	unknown     mode = iota // nothing, or anything
	exclusive               // the lock and its gate
	downgrading             // the same, or already what follows: step 1 has no answer yet
	sharing                 // the lock in shared mode and its gate
	handingOver             // the same, or the gate alone: step 3 has no answer yet
	handedOver              // the gate alone; the shared connection has the lock in shared mode
	upgrading               // the gate alone; step 4 has no answer yet
	undecided               // the gate alone; step 4 has failed, so the shared connection has the lock in shared mode, exclusively, or in both
	upgraded                // the gate alone; the shared connection has the lock exclusively
	openingGate             // the same, or nothing: step 5 has no answer yet
)

// holding is what a shared connection may have of a lock.
type holding int

const (
	exclusively  holding = iota
	inSharedMode         // from step 2 of a move on
	inEitherMode         // from step 4 on, until its answer
)

// maxTries is how often something is asked for when the connection turns out to be broken.
const maxTries = 2

// Acquire asks once. If somebody has the lock, the next call waits on a connection of its own, if there is one to be had, and else
// the engine asks again and again.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if l.isQueued() {
		return l.await(ctx)
	}
	if ctx.Err() != nil {
		return driver.Grant{}, context.Cause(ctx)
	}
	if err := l.bind(); err != nil {
		return driver.Grant{}, err
	}
	for tries := 0; ; {
		grant, again, err := l.try(ctx)
		if !errors.Is(err, errRetired) { // which may happen any number of times
			tries++
		}
		if err == nil || !again || tries == maxTries || ctx.Err() != nil {
			return grant, err
		}
	}
}

func (l *lock) isQueued() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queued
}

func (l *lock) bind() error {
	if l.bound {
		return nil
	}
	err := l.d.bind(l)
	l.bound = err == nil
	return err
}

// try asks for the lock on the shared connection. again says that it may be tried at once on another one: the connection had broken,
// maybe long ago.
func (l *lock) try(ctx context.Context) (g driver.Grant, again bool, err error) {
	c, err := l.conn(ctx)
	if err != nil {
		return g, false, err
	}
	if err := c.makeRoom(ctx); err != nil {
		return g, pgsession.Ended(err) || errors.Is(err, errRetired), err
	}
	limited, cancel := callContext(ctx, maxCall)
	defer cancel()
	if err := l.leaveShared(limited); err != nil { // what an earlier try may have left on a connection that broke
		return g, false, err
	}
	err = c.claim(l)
	if errors.Is(err, locker.ErrHeld) && !c.isLeased(l.key) { // whoever has claimed it may have no answer yet; this one comes after that
		if _, err := c.stands(limited); err != nil {
			return g, c.Err() != nil, err
		}
		err = c.claim(l)
	}
	switch {
	case errors.Is(err, locker.ErrHeld):
		return g, false, l.held(ctx)
	case err != nil:
		return g, true, err
	}
	l.mu.Lock()
	l.at, l.atHas = c, exclusively
	l.mu.Unlock()
	token, sent, err := c.try(l.key)
	switch {
	case errors.Is(err, kit.ErrNotSent):
		l.letGo(c)
		return g, c.Err() != nil, err
	case err != nil:
		return g, c.Err() != nil || c.isRetired(), err
	case token == 0:
		l.letGo(c)
		return g, false, l.held(ctx)
	}
	return driver.Grant{Token: token, Base: sent, TTL: c.ttl}, true, l.hang(c)
}

// conn returns the shared connection of the lock's TTL.
func (l *lock) conn(ctx context.Context) (*conn, error) {
	for {
		s, err := l.d.session(l.ttl)
		if err != nil {
			return nil, err
		}
		c, err := s.conn(ctx)
		if !errors.Is(err, errRetired) {
			return c, err
		}
	}
}

// held is the answer to a request for a lock that somebody has.
func (l *lock) held(ctx context.Context) error {
	if l.noWait {
		return locker.ErrHeld
	}
	own, ok := l.d.waiterFor(ctx, l)
	if !ok {
		return &driver.HeldError{RetryAfter: time.Second} // the engine has its own shorter pauses
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued, l.own = true, own
	return driver.ErrQueued
}

// hang makes the lease hang on c, where it was granted or has moved to. It fails, and leaves it where it was, if c has ended
// meanwhile: then nobody else tells.
func (l *lock) hang(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := c.Err(); err != nil {
		return err
	}
	c.leases.Add(1)
	l.drop()
	l.hangs = c
	return nil
}

// isHeld reports whether there is a lease.
func (l *lock) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hangs != nil
}

// unhang is the end of the lease, as far as the connections are concerned.
func (l *lock) unhang() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

func (l *lock) drop() {
	for _, c := range []**conn{&l.hangs, &l.heir} {
		if *c != nil {
			(*c).leases.Add(-1)
			*c = nil
		}
	}
}

// inherits notes that the lease hangs on c as well, because the other connection is about to give the lock back. It fails if c has
// ended meanwhile: then the other one must not be asked to.
func (l *lock) inherits(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := c.Err(); err != nil {
		return err
	}
	c.leases.Add(1)
	l.mode, l.heir = handingOver, c
	return nil
}

// letGo notes that the shared connection doesn't hold the lock.
func (l *lock) letGo(c *conn) {
	c.unclaim(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = nil
}

// connectionEnded is called when a connection that l claims a key of has ended.
func (l *lock) connectionEnded(c *conn, cause error) {
	l.mu.Lock()
	dead := l.hangs == c || l.heir == c || l.hangs == nil && l.own == c && l.queued
	l.mu.Unlock()
	if dead {
		l.tellLost(lostWith(cause))
	}
}

// Release removes what may stand in either place. Each is settled by an answer of its own session, or by the end of that.
func (l *lock) Release(ctx context.Context) error {
	if err := l.settle(ctx); err != nil {
		return err
	}
	defer l.settled()
	l.unhang()
	if err := pgsession.Both(l.leaveOwn(ctx), l.leaveShared(ctx)); err != nil {
		return err
	}
	if l.bound {
		l.bound = false
		l.d.unbind(l)
	}
	return nil
}

// settle waits until nobody else moves the lock, or removes it.
func (l *lock) settle(ctx context.Context) error {
	select {
	case l.settling <- struct{}{}:
		return nil
	case <-ctx.Done():
		return pgsession.ErrNoAnswer
	}
}

func (l *lock) settled() { <-l.settling }

// leaveShared gives the lock back on the shared connection. A repetition finds nothing to give back: nobody else has had the key on
// that connection meanwhile, because it is claimed.
func (l *lock) leaveShared(ctx context.Context) error {
	l.mu.Lock()
	c, has := l.at, l.atHas
	l.mu.Unlock()
	if c == nil {
		return nil
	}
	err := c.unlock(l.key, has)
	if err != nil && c.Err() != nil {
		err = l.bury(ctx, c)
	}
	if err == nil {
		l.letGo(c)
	}
	return err
}

// bury makes sure that the session of a connection that has ended is over, and its locks with it.
func (l *lock) bury(ctx context.Context, dead *conn) error {
	c, err := l.d.anyConn(ctx, l.ttl)
	if err != nil {
		return err
	}
	return dead.Terminate(ctx, c.exec)
}

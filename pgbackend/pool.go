package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// pool is the connections for leases of one TTL: the one that they share, which is made when it is
// wanted; a second one, if that was silent; and those that are kept for waiters. It is a [kit.Session]:
// an acquisition has joined it until everything of the acquisition is removed.
type pool struct {
	d   *pgDriver
	ttl time.Duration

	making kit.Flight[*conn] // of the shared connection

	mu      sync.Mutex
	shared  *conn
	other   *conn          // the shared one before, which was silent: see silence.go
	idle    []*conn        // of waiters that have gone
	closed  bool           // no acquisition is attached to it any more
	retryAt driver.Instant // no shared connection is made before, because the last one led to a former primary
}

const (
	connectPause = 5 * time.Second // after a connection for a waiter couldn't be made
	formerPause  = time.Second     // after a shared connection that led to a former primary
	closeLimit   = 5 * time.Second // for the goodbye to a connection that nobody uses any more
	maxIdle      = 3               // connections of waiters that have gone: with the shared one, not more than four once nobody waits
)

// sharedConn returns the shared connection. If its epoch is over, it is given up, and another one is
// made. If it is silent, another one is made as well, unless the server is heard before that. ctx and
// maxConnectWait bound the waiting. If that ends before the connection is made, it is still made, for
// the next caller.
func (p *pool) sharedConn(ctx context.Context) (*conn, error) {
	if c := p.currentShared(); c != nil {
		return c, nil
	}
	limited, cancel := context.WithTimeout(ctx, maxConnectWait)
	defer cancel()
	for {
		c, err := p.makeShared(limited)
		switch {
		case err == nil:
			return c, nil
		case limited.Err() != nil && ctx.Err() == nil:
			return nil, errConnectWait
		case !errors.Is(err, errHeard):
			return nil, err
		}
	}
}

var errConnectWait = fmt.Errorf(
	"%w: no connection was made within %v, and making it goes on", locker.ErrNoAnswer, maxConnectWait)

// errHeard says that a silent connection was heard while another one was being made.
var errHeard = errors.New("the server is heard again")

// makeShared waits until a shared connection is made, or the existing one answers. The error is errHeard if
// the existing one has answered, but can't be used: it is silent again, or its epoch is over. Then the
// caller tries again.
func (p *pool) makeShared(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.mu.Lock()
	silent := p.shared
	p.mu.Unlock()
	if silent.isOpen() {
		heard := silent.Heard() // before the look
		go func() {
			select {
			case <-heard:
				cancel(errHeard)
			case <-ctx.Done():
			}
		}()
	}
	if c := p.currentShared(); c != nil {
		return c, nil
	}
	c, err := p.making.Do(ctx, p.d.tasks, p.connectShared)
	if err == nil {
		return c, nil
	}
	if c := p.currentShared(); c != nil { // it was heard, or made, meanwhile
		return c, nil
	}
	return nil, err
}

// sharedWithoutWaiting returns the shared connection if there is one. Otherwise it is nil, and the
// connection is made in the background.
func (p *pool) sharedWithoutWaiting(ctx context.Context) *conn {
	over, cancel := context.WithCancel(ctx)
	cancel()
	c, _ := p.sharedConn(over)
	return c
}

// existingShared is the shared connection; nil if there is none that further leases can be attached
// to. If it has ended, or is silent, the other one takes its place.
func (p *pool) existingShared() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.existingLocked()
}

// existingLocked is existingShared, with the mutex locked.
func (p *pool) existingLocked() *conn {
	if p.other.isOpen() && p.other.isOfOldEpoch() { // nobody else would look at it
		p.other.giveUp(errOldEpoch)
	}
	if p.hasOther() && (!p.shared.isOpen() || p.shared.isSilent() && !p.other.isSilent()) {
		p.shared, p.other = p.other, p.shared
	}
	if p.shared.isOpen() {
		return p.shared
	}
	return nil
}

// hasOther reports whether the other connection can take the place of the shared one. The mutex is
// held.
func (p *pool) hasOther() bool { return p.other.isOpen() && !p.other.isOfOldEpoch() }

// currentShared is existingShared, without a connection whose epoch is over, and without a silent one
// for which another one can be made. A connection whose epoch is over is given up. The mutex is held
// throughout, because a connection may become silent between two looks.
func (p *pool) currentShared() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.existingLocked()
	switch {
	case c == nil:
		return nil
	case c.isOfOldEpoch():
		c.giveUp(errOldEpoch)
		return nil
	case c.isSilent() && !p.hasOther(): // otherwise that one is silent as well
		return nil
	}
	return c
}

// connectShared makes the shared connection. It ends within connectTime, or when the Locker is
// closed.
func (p *pool) connectShared(ctx context.Context) (*conn, error) {
	if c := p.currentShared(); c != nil { // it was made between a look and this call
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.d.connectTime())
	defer cancel()
	c, err := p.connectToPrimary(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	closed := p.closed
	if p.shared.isOpen() { // it was silent
		p.other = p.shared
	}
	p.shared = c
	p.mu.Unlock()
	if closed {
		c.leave()
	}
	return c, nil
}

// connectToPrimary fails if the connection leads to a former primary, and for a moment after that
// without another try: each one that is made there writes to the table of the epoch.
func (p *pool) connectToPrimary(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	isFormer := driver.Stamp() < p.retryAt
	p.mu.Unlock()
	if isFormer {
		return nil, errFormerPrimary
	}
	c, err := p.d.connect(ctx, p, false)
	if err != nil || !c.isOfOldEpoch() {
		return c, err
	}
	c.End(errFormerPrimary)
	p.mu.Lock()
	p.retryAt = driver.Stamp().Add(formerPause)
	p.mu.Unlock()
	return nil, errFormerPrimary
}

var errFormerPrimary = fmt.Errorf("%w: the server may be a former primary, or its epoch must be raised by hand (docs/postgres.md, \"Raising the epoch\"); it is asked again after %v", errOldEpoch, formerPause)

// Usable is true: a pool replaces connections that have ended.
func (p *pool) Usable() bool { return true }

// Close ends the connections. No lease is attached to them, unless the Locker is closed.
func (p *pool) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	p.mu.Lock()
	conns := p.idle
	for _, c := range []*conn{p.shared, p.other} {
		if c != nil {
			conns = append(conns, c)
		}
	}
	p.idle, p.shared, p.other, p.closed = nil, nil, nil, true
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() { c.Close(ctx) })
	}
	all.Wait()
	return nil
}

// takeIdle takes a connection whose waiter has gone, if there is one that leads where the shared
// one leads.
func (p *pool) takeIdle() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		c := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if p.shared == nil || p.shared.tokens.serverID != c.tokens.serverID || p.shared.tokens.epoch != c.tokens.epoch || c.hasResigned() || c.isOfOldEpoch() {
			c.End(errNotNeeded)
		}
		if c.Err() == nil {
			return c
		}
	}
	return nil
}

// putIdle takes a waiter's connection back on which nothing is held. A few are kept, until the
// server ends them after a TTL.
func (p *pool) putIdle(c *conn) {
	p.mu.Lock()
	var kept []*conn
	for _, other := range p.idle {
		if other.Err() == nil {
			kept = append(kept, other)
		}
	}
	keep := len(kept) < maxIdle && !p.closed
	if keep {
		kept = append(kept, c)
	}
	p.idle = kept
	p.mu.Unlock()
	if !keep {
		c.leave()
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

package pgbackend

import (
	"context"
	"sync"
	"time"

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
	shared  *conn          // see shared.go
	other   *conn          // the shared one before, which was silent: see silence.go
	idle    []*conn        // of waiters that have gone
	closed  bool           // no acquisition is attached to it any more
	retryAt driver.Instant // no shared connection is made before, because the last one led to a former primary
}

const (
	closeLimit = 5 * time.Second // for the goodbye to a connection that nobody uses any more
	maxIdle    = 3               // connections of waiters that have gone: with the shared one, not more than four once nobody waits
)

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

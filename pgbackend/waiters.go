package pgbackend

import (
	"context"
	"time"

	"github.com/fencedlock/locker/driver"
)

// The connections of waiters, whose number is bounded. When a waiter has gone its connection is for
// the next one.

// waiterSlots count the connections of waiters. The driver's mutex guards them.
type waiterSlots struct {
	limit   int
	used    int            // connections for waiters, and those about to be made
	refused driver.Instant // when one couldn't be made
}

// waiterFor reserves a connection for a waiter. The connection is nil when it has yet to be made.
// If there are as many as may be, waiterFor moves the lease of another connection, so that the
// connection becomes free. It is false when none can be had: then the waiter polls.
func (d *pgDriver) waiterFor(ctx context.Context, p *pool) (*conn, bool) {
	if d.slots.limit == 0 || !d.mayConnect() {
		return nil, false
	}
	for range 2 {
		if c := p.takeIdle(); c != nil {
			return c, true
		}
		if d.reserveSlot() || d.evictIdle() && d.reserveSlot() {
			return nil, true
		}
		if !p.moveOne(ctx) {
			break
		}
	}
	return nil, false
}

// connectPause is how long no connection for a waiter is made after one couldn't be made.
const connectPause = 5 * time.Second

func (d *pgDriver) reserveSlot() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.slots.used >= d.slots.limit {
		return false
	}
	d.slots.used++
	return true
}

func (d *pgDriver) freeSlot() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slots.used--
}

// mayConnect is false for a while after a connection for a waiter couldn't be made: those that poll
// mustn't try that each time.
func (d *pgDriver) mayConnect() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return driver.Stamp() >= d.slots.refused.Add(connectPause)
}

func (d *pgDriver) noteRefusal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slots.refused = driver.Stamp()
	d.slots.used--
}

// adopt makes a waiter's connection of one that was reserved. It is counted until it ends.
func (d *pgDriver) adopt(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.conns[c]; open {
		c.isWaiter = true
	} else {
		d.slots.used--
	}
}

// evictIdle ends a connection that is kept for waiters of another TTL.
func (d *pgDriver) evictIdle() bool {
	d.mu.Lock()
	pools := make(map[*pool]struct{})
	for c := range d.conns {
		pools[c.pool] = struct{}{}
	}
	d.mu.Unlock()
	for p := range pools {
		if c := p.takeIdle(); c != nil {
			d.forgetConn(c)
			c.End(errNotNeeded)
			return true
		}
	}
	return false
}

// makeWaiter makes a connection for a waiter that has reserved it. ctx covers the waiting: a
// connection that comes later is kept for the next one.
func (p *pool) makeWaiter(ctx context.Context) (*conn, error) {
	made := make(chan *conn)
	failed := make(chan error, 1)
	gone := make(chan struct{})
	defer close(gone)
	begun := p.d.tasks.Go(func(ctx context.Context) { // ends within connectTime, or when the Locker is closed
		limited, cancel := context.WithTimeout(ctx, p.d.connectTime())
		defer cancel()
		c, err := p.d.connect(limited, p, true)
		if err == nil && c.isOfOldEpoch() { // a former primary still answers
			c.End(errOldEpoch)
			err = c.Err()
		}
		if err != nil {
			p.d.noteRefusal()
			failed <- err
			return
		}
		p.d.adopt(c)
		select {
		case made <- c:
		case <-gone:
			p.putIdle(c)
		}
	})
	if !begun {
		p.d.freeSlot()
		return nil, errNotNeeded
	}
	select {
	case c := <-made:
		return c, nil
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// moveOne moves the lease of a waiter's connection, which is free then. It is false when there is
// none. A renewal has to wait for that, so it may not take long.
func (p *pool) moveOne(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, min(maxCall, p.ttl/8))
	defer cancel()
	for _, l := range p.leasesOfWaiters() {
		select {
		case l.moveLock <- struct{}{}:
		default: // it is being moved, or released
			continue
		}
		_, err := l.moveLocked(ctx)
		l.unlockMove()
		if _, waiter, _ := l.attachment(); err == nil && waiter == nil {
			return true
		}
	}
	return false
}

// leasesOfWaiters lists the locks that were granted on waiters' connections of a pool and are still
// there.
func (p *pool) leasesOfWaiters() []*lock {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	var locks []*lock
	for c := range p.d.conns {
		if !c.isWaiter || c.pool != p || c.leases.Load() == 0 {
			continue
		}
		c.mu.Lock()
		for _, l := range c.reserved {
			locks = append(locks, l)
		}
		c.mu.Unlock()
	}
	return locks
}

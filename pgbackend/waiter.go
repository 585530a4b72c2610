package pgbackend

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/pgsession"
)

// The connections of waiters, whose number is bounded. When a waiter has gone its connection is for the next one; a few are kept, for a TTL.

// waiterFor reserves a connection for a waiter, which is nil when it has yet to be made. If there are as many as may be, it makes
// the lease of another move, so that one becomes free. It is false when none can be had: then the waiter polls.
func (d *pgDriver) waiterFor(ctx context.Context, l *lock) (*conn, bool) {
	s, err := d.session(l.ttl)
	if err != nil || d.config.waiters == 0 || !d.mayConnect() {
		return nil, false
	}
	for range 2 {
		if c := s.takeIdle(); c != nil {
			return c, true
		}
		if d.reserveWaiter() || d.evictIdle() && d.reserveWaiter() {
			return nil, true
		}
		if !s.moveOne(ctx) {
			break
		}
	}
	return nil, false
}

func (d *pgDriver) reserveWaiter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiters >= d.config.waiters {
		return false
	}
	d.waiters++
	return true
}

func (d *pgDriver) unreserveWaiter() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiters--
}

// mayConnect is false for a while after a connection for a waiter couldn't be made: those who poll mustn't try that each time.
func (d *pgDriver) mayConnect() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return driver.Stamp() >= d.refused.Add(connectPause)
}

func (d *pgDriver) noteRefusal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused = driver.Stamp()
	d.waiters--
}

// adopt makes a waiter's connection of one that was reserved. It is counted until it ends.
func (d *pgDriver) adopt(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.conns[c]; open {
		c.waits = true
	} else {
		d.waiters--
	}
}

// evictIdle ends a connection that is kept for waiters of another TTL.
func (d *pgDriver) evictIdle() bool {
	d.mu.Lock()
	sessions := slices.Collect(maps.Values(d.sessions))
	d.mu.Unlock()
	for _, s := range sessions {
		if c := s.takeIdle(); c != nil {
			d.forgetConn(c)
			c.End(pgsession.ErrClosed)
			return true
		}
	}
	return false
}

// takeIdle takes a connection whose waiter has gone, if there is one that leads where the shared one leads.
func (s *session) takeIdle() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.idle) > 0 {
		c := s.idle[len(s.idle)-1]
		s.idle = s.idle[:len(s.idle)-1]
		if s.shared == nil || s.shared.place != c.place || s.shared.epoch != c.epoch {
			c.End(pgsession.ErrClosed)
		}
		if c.Err() == nil {
			return c
		}
	}
	return nil
}

// putIdle takes a connection back on which nothing is held. A few are kept, until the server ends them after a TTL.
func (s *session) putIdle(c *conn) {
	s.mu.Lock()
	s.idle = slices.DeleteFunc(s.idle, func(c *conn) bool { return c.Err() != nil })
	keep := len(s.idle) < maxIdle && !s.over
	if keep {
		s.idle = append(s.idle, c)
	}
	s.mu.Unlock()
	if !keep {
		c.leave()
	}
}

// makeWaiter makes a connection for a waiter who has reserved it. ctx covers the waiting: a connection that comes later is kept for
// the next one.
//
//nolint:contextcheck
func (s *session) makeWaiter(ctx context.Context) (*conn, error) {
	if !s.d.begin() {
		s.d.unreserveWaiter()
		return nil, pgsession.ErrClosed
	}
	made := make(chan *conn)
	failed := make(chan error, 1)
	gone := make(chan struct{})
	defer close(gone)
	go func() { //nolint:contextcheck // ends within connectTime, or when the Locker is closed
		defer s.d.busy.Done()
		limited, cancel := context.WithTimeout(s.d.life, s.d.connectTime())
		defer cancel()
		c, err := s.d.connect(limited, s.ttl, true)
		if err != nil {
			s.d.noteRefusal()
			failed <- err
			return
		}
		s.d.adopt(c)
		select {
		case made <- c:
		case <-gone:
			s.putIdle(c)
		}
	}()
	select {
	case c := <-made:
		return c, nil
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

const closeLimit = 5 * time.Second // of the goodbye to a connection that nobody uses any more

// leave ends a connection on which nothing is held. The server's word for it is waited for aside, until the Locker is closed.
//
//nolint:contextcheck
func (c *conn) leave() {
	if !c.d.begin() {
		c.End(pgsession.ErrClosed)
		return
	}
	go func() {
		defer c.d.busy.Done()
		ctx, cancel := context.WithTimeout(c.d.life, closeLimit)
		defer cancel()
		c.Close(ctx)
	}()
}

package pgbackend

import (
	"context"
	"sync"
	"time"

	"github.com/fencedlock/locker/internal/pgsession"
)

// session is the connections for leases of one TTL: the one that they share, made when it is wanted, and those of waiters.
type session struct {
	d   *pgDriver
	ttl time.Duration

	mu     sync.Mutex
	shared *conn
	making *making // the shared connection is being made
	idle   []*conn // of waiters that have gone
	over   bool    // it was retired: nobody finds it any more
}

// making is a connection under way, for all who want it.
type making struct {
	done chan struct{}
	conn *conn
	err  error
}

const (
	connectLimit = 5 * time.Second // for each host
	connectPause = 5 * time.Second // after a failure, for waiters
	maxIdle      = 3               // connections of waiters that have gone: with the shared one, not more than four once nobody waits
)

// conn returns the shared connection. ctx covers the waiting, which ends with the making at the latest. If it ends before, the
// connection is made all the same, for the next one. The error is errRetired when the session is not to be used any more.
func (s *session) conn(ctx context.Context) (*conn, error) {
	c, m := s.get()
	if c != nil {
		return c, nil
	}
	select {
	case <-m.done:
		return m.conn, m.err
	case <-ctx.Done():
		return nil, pgsession.ErrNoAnswer
	}
}

// get returns the shared connection, or the making of it.
func (s *session) get() (*conn, *making) {
	s.mu.Lock()
	if s.shared != nil && s.shared.Err() == nil && !s.shared.isRetired() {
		defer s.mu.Unlock()
		return s.shared, nil
	}
	m := s.making
	begins := m == nil
	if begins {
		m = &making{done: make(chan struct{})}
	}
	over := s.over
	if !over {
		s.making = m
	}
	s.mu.Unlock()
	switch {
	case !begins:
	case over:
		m.err = errRetired
		close(m.done)
	case s.d.begin():
		go s.make(m)
	default:
		s.made(m, nil, pgsession.ErrClosed)
	}
	return nil, m
}

// make makes the shared connection. It ends within connectTime, or when the Locker is closed.
//
//nolint:contextcheck
func (s *session) make(m *making) {
	defer s.d.busy.Done()
	ctx, cancel := context.WithTimeout(s.d.life, s.d.connectTime())
	defer cancel()
	c, err := s.d.connect(ctx, s.ttl, false)
	s.made(m, c, err)
}

func (s *session) made(m *making, c *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.conn, m.err = c, err
	s.shared, s.making = c, nil
	close(m.done)
}

// retire returns the connections of a session, to be ended: nothing hangs on them. It is false when one is being made, or something
// has come to hang on one.
func (s *session) retire() ([]*conn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.making != nil || s.shared != nil && !s.shared.retire() {
		return nil, false
	}
	left := append(s.idle, s.shared)
	s.idle, s.shared, s.over = nil, nil, true
	return left, true
}

// retire makes sure that nothing will be claimed on a connection that somebody may be about to use. It is false when something is.
func (c *conn) retire() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	unused := len(c.claims) == 0 || c.Err() != nil
	c.retired = c.retired || unused
	return unused
}

// resign makes sure that nothing more will be claimed on a connection. What is claimed stays; when all of it was given back, the server
// ends the session after a TTL.
func (c *conn) resign() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
}

func (c *conn) isRetired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retired
}

func (c *conn) inUse() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.claims) > 0 && c.Err() == nil
}

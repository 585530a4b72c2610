package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker/driver"
)

// How a session gets a keepalive, or an etcd lease in the place of one that nothing extends.

// refresh brings the newest generation a beat that was under way already or is newer, or replaces it where that is
// needed.
func (s *session) refresh(ctx context.Context) error {
	err := s.making.do(ctx, s.d.background, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := s.extendOrReplace(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.trouble = err
		return err
	})
	if err != nil && ctx.Err() != nil {
		return s.overdue(err)
	}
	return err
}

// overdue returns a reason in the place of err, which says no more than that the time was up.
func (s *session) overdue(err error) error {
	s.mu.Lock()
	trouble := s.trouble
	s.mu.Unlock()
	if trouble != nil {
		return trouble
	}
	if m, missing := s.d.server.best(); missing == nil && errors.Is(err, errNoAnswer) {
		return fmt.Errorf("%w from %s", errNoAnswer, m.host())
	}
	return err
}

func (s *session) extendOrReplace(ctx context.Context) error {
	g, _ := s.newest()
	if g != nil && s.extendable(g) {
		b, alive, err := s.d.server.beat(ctx, s.attemptLimit(), g)
		if err != nil && (ctx.Err() != nil || !errors.Is(err, errLagging)) { // of a term that was set back a Grant finds out
			return err
		}
		if err == nil && alive && compareTerms(g.term, b.term) == current {
			s.mu.Lock()
			defer s.mu.Unlock()
			g.beat = b
			return nil
		}
	}
	return s.replace(ctx, g)
}

// replace has an etcd lease granted in the place of g; nil: the first one.
func (s *session) replace(ctx context.Context, g *generation) error {
	if g != nil {
		s.retire(g)
	}
	next, err := s.grant(ctx, s.needed())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.d.revokeLater(next.id)
		return errClosing
	}
	s.gen, s.live = next, append(s.live, next)
	return nil
}

// needed is the TTL that the next etcd lease must have: who holds a lock counts on the one that was granted. When nobody does
// any more, a TTL that was raised once is not asked for again.
func (s *session) needed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	ttl := s.ttl()
	for _, g := range s.live {
		if g.locks > 0 {
			ttl = max(ttl, g.ttl)
		}
	}
	return ttl
}

// grant has an etcd lease granted that has the TTL it was asked for. How far a short one is raised is for each member to say, each
// for itself: so what one answers need not be what the leader counts with, now or after the next election. But all have what
// was asked. So a TTL that was raised is asked for.
func (s *session) grant(ctx context.Context, ttl time.Duration) (*generation, error) {
	for {
		g, err := s.d.server.grant(ctx, s.attemptLimit(), int64(ttl/time.Second), s.d.revokeLater)
		if err != nil || g.ttl == ttl {
			return g, err
		}
		s.d.revokeLater(g.id)
		if g.ttl < ttl || g.ttl > maxTTL {
			return nil, fmt.Errorf("the etcd lease was granted for %v, of %v asked", g.ttl, ttl)
		}
		ttl = g.ttl
	}
}

// extendable reports whether a keepalive can still extend g: no later term is known, and it may still be there.
func (s *session) extendable(g *generation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !g.over && s.d.server.term.Load() == g.term && driver.Now().Sub(max(g.base, g.beat.sent)) < g.ttl
}

// retire is called before the Grant that replaces g: so each Base of g is older than that of the next generation, and
// a key that is moved never gets an older one.
func (s *session) retire(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.over = true
	s.endUnused(g)
}

package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/driver"
)

// session is what the locks of one TTL hang on: an etcd lease, which is replaced when the cluster has a new leader.
type session struct {
	d       *etcdDriver
	seconds int64  // to ask for
	making  shared // a keepalive or a Grant

	mu      sync.Mutex
	gen     *generation   // the newest; nil: none yet
	live    []*generation // those that are not revoked
	trouble error         // of the latest keepalive or Grant
	closed  bool          // nobody needs an etcd lease any more

	users int // acquisitions that use it, under the driver's mutex
}

// generation is one etcd lease. The session's mutex guards what changes.
type generation struct {
	id   clientv3.LeaseID
	term uint64        // in which it was granted
	ttl  time.Duration // as asked for and granted

	base  driver.Instant
	beat  beat  // the newest
	over  bool  // nothing extends it any more
	ended bool  // its revocation has begun
	locks int   // acquisitions whose keys may hang on it
	guard int64 // the mod revision of its guard key, as far as it is known

	// Each Txn that puts a key on an etcd lease compares the guard key of that lease. To write the guard key stops all
	// that are still on their way: so a key can't appear after its acquisition was cleaned up. As a rule the guard key
	// doesn't exist, and its revision is 0. It hangs on the same etcd lease.
}

func (s *session) ttl() time.Duration { return time.Duration(s.seconds) * time.Second }

// attemptLimit is what one member has for one request of the session, before the next is asked.
func (s *session) attemptLimit() time.Duration { return attemptLimit(s.ttl(), s.d.server.count()) }

// take returns the newest generation for one more lock to hang on. When its Base is older than age it comes with a beat
// that is younger, which the lock's own Txn proves.
func (s *session) take(ctx context.Context, age time.Duration) (*generation, beat, error) {
	for tries := 0; ; tries++ {
		s.mu.Lock()
		if g := s.gen; g != nil && !g.over && (tries > 0 || driver.Now().Sub(max(g.base, g.beat.sent)) <= age) {
			g.locks++
			defer s.mu.Unlock()
			return g, g.beat, nil
		}
		s.mu.Unlock()
		if err := s.refresh(ctx); err != nil {
			return nil, beat{}, err
		}
	}
}

// hold notes that a lock's key may come to hang on g. It is false when g is over.
func (s *session) hold(g *generation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.over || g.ended {
		return false
	}
	g.locks++
	return true
}

// drop is the opposite of take and hold. An etcd lease that nothing extends or hangs on is revoked.
func (s *session) drop(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.locks--
	s.endUnused(g)
}

func (s *session) endUnused(g *generation) {
	if g.over && g.locks == 0 && !g.ended {
		s.d.revokeLater(g.id)
		s.forget(g)
	}
}

func (s *session) forget(g *generation) {
	g.ended = true
	s.live = slices.DeleteFunc(s.live, func(other *generation) bool { return other == g })
}

// newest returns the newest generation with its latest beat.
func (s *session) newest() (*generation, beat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == nil {
		return nil, beat{}
	}
	return s.gen, s.gen.beat
}

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
	return !g.over && s.d.server.term.Load() == g.term && driver.Exact().Sub(max(g.base, g.beat.sent)) < g.ttl
}

// retire is called before the Grant that replaces g: so each Base of g is older than that of the next generation, and
// a key that is moved never gets an older one.
func (s *session) retire(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.over = true
	s.endUnused(g)
}

// prove takes in a linearizable answer that was asked for after b was heard, and returns the Base of g.
func (s *session) prove(g *generation, b beat, l linear) driver.Instant {
	base, ok := proved(g.term, b, l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok && !g.over {
		g.base = max(g.base, base)
	}
	return g.base
}

// unproved reports whether the newest beat is younger than age and has proved nothing yet: a renewal that was short of time
// has left it to the next.
func (s *session) unproved(age time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gen
	return g != nil && !g.over && g.beat.sent > g.base && driver.Now().Sub(g.beat.sent) <= age
}

func (s *session) baseOf(g *generation) driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.base
}

func (s *session) guardOf(g *generation) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.guard
}

// guarded takes in a revision of the guard key.
func (s *session) guarded(g *generation, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.guard = max(g.guard, revision)
}

// end revokes all etcd leases of a session that nobody uses any more. It may be repeated.
func (s *session) end(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	live := slices.Clone(s.live)
	for _, g := range live {
		g.over = true
	}
	s.mu.Unlock()
	for _, g := range live {
		if err := s.d.server.revoke(ctx, s.attemptLimit(), g.id); err != nil {
			return err
		}
		s.mu.Lock()
		s.forget(g)
		s.mu.Unlock()
	}
	return nil
}

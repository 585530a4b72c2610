package etcdbackend

import (
	"context"
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
		if g := s.gen; g != nil && !g.over && (tries > 0 || driver.Stamp().Sub(max(g.base, g.beat.sent)) <= age) {
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
	return g != nil && !g.over && g.beat.sent > g.base && driver.Stamp().Sub(g.beat.sent) <= age
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

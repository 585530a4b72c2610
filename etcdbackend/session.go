package etcdbackend

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// session is what the locks of one TTL are attached to: an etcd lease, which is replaced when the
// cluster has a new leader. refresh.go keeps it alive.
type session struct {
	d          *etcdDriver
	ttl        time.Duration // asked for
	refreshing *kit.Flight[struct{}]

	mu     sync.Mutex
	newest *etcdLease   // nil: none yet
	live   []*etcdLease // whose revocation has not begun
	failed error        // why the latest keepalive or Grant has failed; nil: it has not
	closed bool         // no lock needs an etcd lease any more
}

// etcdLease is one etcd lease. The session's mutex guards what changes.
type etcdLease struct {
	id   clientv3.LeaseID
	term uint64        // in which it was granted
	ttl  time.Duration // as asked for and granted

	base      driver.Instant     // what is proved
	keepalive etcdconn.Keepalive // the newest
	retired   bool               // nothing extends it any more
	revoked   bool               // its revocation has begun
	users     int                // acquisitions whose keys may be attached to it

	// guard is the mod revision of the guard key, as far as it is known. Each Txn that attaches a
	// key to this etcd lease compares the guard key of the etcd lease. To write the guard key stops
	// all such Txns that are still on their way: so a key can't appear after its acquisition was
	// cleaned up. As a rule the guard key doesn't exist, and its revision is 0. It is attached to
	// the same etcd lease.
	guard int64
}

func newSession(d *etcdDriver, ttl time.Duration) *session {
	return &session{d: d, ttl: ttl, refreshing: &kit.Flight[struct{}]{Transient: func(error) bool { return true }}}
}

// Usable is part of [kit.Session]. A session gets a new etcd lease when it needs one.
func (s *session) Usable() bool { return true }

// attemptLimit limits one request of the session to one member, before the next member is asked.
func (s *session) attemptLimit() time.Duration { return attemptLimit(s.ttl, s.d.cluster.Members()) }

// use returns the newest etcd lease, for one more lock to be attached to. If its Base is older than
// age, it comes with a keepalive that is younger, which the lock's own Txn proves.
func (s *session) use(ctx context.Context, age time.Duration) (*etcdLease, etcdconn.Keepalive, error) {
	for tries := 0; ; tries++ {
		s.mu.Lock()
		if e := s.newest; e != nil && !e.retired && (tries > 0 || driver.Stamp().Sub(max(e.base, e.keepalive.Sent)) <= age) {
			e.users++
			defer s.mu.Unlock()
			return e, e.keepalive, nil
		}
		s.mu.Unlock()
		if err := s.refresh(ctx); err != nil {
			return nil, etcdconn.Keepalive{}, err
		}
	}
}

// tryUse notes that a lock's key may be attached to e. It is false when e is retired.
func (s *session) tryUse(e *etcdLease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.retired || e.revoked {
		return false
	}
	e.users++
	return true
}

// leave is the opposite of use and tryUse. A retired etcd lease without users is revoked.
func (s *session) leave(e *etcdLease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.users--
	s.revokeUnused(e)
}

// retire is called before the Grant that replaces e: so each Base of e is older than any Base of
// the next etcd lease, and a key that is moved never gets an older Base.
func (s *session) retire(e *etcdLease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.retired = true
	s.revokeUnused(e)
}

func (s *session) revokeUnused(e *etcdLease) {
	if e.retired && e.users == 0 && !e.revoked {
		s.d.revokeOrphan(e.id)
		s.forget(e)
	}
}

func (s *session) forget(e *etcdLease) {
	e.revoked = true
	s.live = slices.DeleteFunc(s.live, func(other *etcdLease) bool { return other == e })
}

// current returns the newest etcd lease with its newest keepalive.
func (s *session) current() (*etcdLease, etcdconn.Keepalive) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		return nil, etcdconn.Keepalive{}
	}
	return s.newest, s.newest.keepalive
}

// prove records a linearizable answer to a request that was sent after k was heard, and returns the
// Base of e.
func (s *session) prove(e *etcdLease, k etcdconn.Keepalive, r etcdconn.Reply) driver.Instant {
	base, ok := proved(e.term, k, confirmation{sent: r.Sent, term: r.Header.RaftTerm})
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok && !e.retired {
		e.base = max(e.base, base)
	}
	return e.base
}

// hasUnproved reports whether the newest keepalive is younger than age and has proved nothing yet:
// a renewal that was short of time has left it to the next one.
func (s *session) hasUnproved(age time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.newest
	return e != nil && !e.retired && e.keepalive.Sent > e.base && driver.Stamp().Sub(e.keepalive.Sent) <= age
}

func (s *session) baseOf(e *etcdLease) driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.base
}

func (s *session) guardOf(e *etcdLease) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.guard
}

// sawGuard records a revision of the guard key.
func (s *session) sawGuard(e *etcdLease, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.guard = max(e.guard, revision)
}

// Close revokes all etcd leases of a session that no lock uses any more. What can't be revoked ends
// with its TTL.
func (s *session) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	s.mu.Lock()
	s.closed = true
	live := slices.Clone(s.live)
	for _, e := range live {
		e.retired = true
	}
	s.mu.Unlock()
	for _, e := range live {
		if err := s.d.cluster.Revoke(ctx, s.attemptLimit(), e.id); err != nil {
			return err
		}
		s.mu.Lock()
		s.forget(e)
		s.mu.Unlock()
	}
	return nil
}

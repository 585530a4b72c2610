package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// How a session gets a keepalive, or an etcd lease in place of one that nothing extends.
//
// # When an answer is late
//
// A keepalive or a Grant asks one member after the other, each for attemptLimit at most (etcdconn's
// try). When that time is up, the keepalive's stream is cancelled (exchange in etcdconn's
// lease.go). So a late answer can't be taken for the answer to the next keepalive.
//
// The keepalive is shared: it is a [kit.Flight], which goes on for requestLimit, also when the
// renewal that waits for it has returned. (A renewal has a quarter of the TTL, and 5 s at most, see
// calls.go in package driver. So its keepalive goes on after it only at TTLs below 20 s.) If it
// then succeeds, the next renewal sends no keepalive, but proves this one, unless it is older than
// a sixth of the TTL (session.hasUnproved). Until then the Base stays as it is. If all fails, the
// leases end by their deadline, with the error of session.reason. An etcd lease whose TTL may have
// passed without a keepalive, or that was granted in another term than the newest one, is replaced
// (isExtendable, replace).

// etcd counts in seconds. The allowance for clocks, and an attempt or two to renew, need more than
// one of them. Above 300 s etcd's leader begins to write checkpoints of what is left of a lease,
// and a new leader goes on from the last checkpoint instead of the whole TTL: earlier than a holder
// can know.
var ttls = kit.TTLBounds{Min: 2 * time.Second, Max: 300 * time.Second, Unit: time.Second}

const (
	// requestLimit is what all members have together, for all that an acquisition asks, and for a
	// keepalive or a Grant. A renewal that waits for one has less, and leaves it to the next
	// renewal.
	requestLimit = 2 * etcdconn.MaxAttempt

	// reasonLimit is extra time in which an acquisition learns why a keepalive or a Grant has
	// failed.
	reasonLimit = 250 * time.Millisecond
)

// attemptLimit limits one request to one member, before the next member is asked. A minority of n
// members may be silent, so a member of the majority must have its turn within requestLimit, and
// one more attempt must fit in as well.
func attemptLimit(ttl time.Duration, n int) time.Duration {
	return min(ttl/6, requestLimit/time.Duration(n/2+2))
}

// refresh sends a keepalive for the newest etcd lease, or waits for the one under way; it replaces
// the etcd lease if that is needed.
func (s *session) refresh(ctx context.Context) error {
	_, err := s.refreshing.Do(ctx, s.d.tasks, func(ctx context.Context) (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		err := s.extendOrReplace(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failed = err
		return struct{}{}, err
	})
	if err != nil && ctx.Err() != nil {
		return s.reason(err)
	}
	return err
}

// reason returns why the session gets no answers, in place of an error that says only that the time
// was up.
func (s *session) reason(err error) error {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed != nil {
		return failed
	}
	if host := s.d.cluster.Host(); host != "" && errors.Is(err, locker.ErrNoAnswer) {
		return fmt.Errorf("%w from %s", locker.ErrNoAnswer, host)
	}
	return err
}

func (s *session) extendOrReplace(ctx context.Context) error {
	e, _ := s.current()
	if e != nil && s.isExtendable(e) {
		k, ttl, err := s.d.cluster.KeepAlive(ctx, s.attemptLimit(), e.id, e.term)
		if err != nil && (ctx.Err() != nil || !errors.Is(err, etcdconn.ErrBehind)) { // a Grant finds out whether the term was set back
			return err
		}
		// A keepalive is answered with the whole TTL, which is the TTL that was granted or more:
		// how far a short one is raised is for the leader to say. An answer with less extends
		// nothing; it may be what is left of the etcd lease, which a proxy has asked for. 0: the
		// cluster doesn't have it.
		if err == nil && ttl >= e.ttl && compareTerms(e.term, k.Term) == sameTerm {
			s.mu.Lock()
			defer s.mu.Unlock()
			e.keepalive = k
			return nil
		}
	}
	return s.replace(ctx, e)
}

// isExtendable reports whether a keepalive can still extend e: no later term is known, and the etcd
// lease may still exist.
func (s *session) isExtendable(e *etcdLease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !e.retired && s.d.cluster.Term() == e.term && driver.Now().Sub(max(e.base, e.keepalive.Sent)) < e.ttl
}

// replace gets an etcd lease in place of e; nil: the first one.
func (s *session) replace(ctx context.Context, e *etcdLease) error {
	if e != nil {
		s.retire(e)
	}
	next, err := s.grant(ctx, s.neededTTL())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.d.revokeOrphan(next.id)
		return kit.ErrClosing
	}
	s.newest, s.live = next, append(s.live, next)
	return nil
}

// neededTTL is the TTL that the next etcd lease must have: a holder counts on the TTL that it was
// granted. When no lock does any more, a TTL that was raised once is not asked for again.
func (s *session) neededTTL() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	ttl := s.ttl
	for _, e := range s.live {
		if e.users > 0 {
			ttl = max(ttl, e.ttl)
		}
	}
	return ttl
}

// grant gets an etcd lease that has the TTL which was asked for. How far a short TTL is raised,
// each member decides by itself. So what one member answers need not be what the leader counts
// with, now or after the next election. But all have what was asked for. So a TTL that was raised
// is asked for.
func (s *session) grant(ctx context.Context, ttl time.Duration) (*etcdLease, error) {
	for {
		e, err := s.grantInKnownTerm(ctx, ttl)
		if err != nil || e.ttl == ttl {
			return e, err
		}
		s.d.revokeOrphan(e.id)
		if e.ttl < ttl || e.ttl > ttls.Max {
			return nil, fmt.Errorf("the etcd lease was granted for %v instead of %v", e.ttl, ttl)
		}
		ttl = e.ttl
	}
}

// grantInKnownTerm gets an etcd lease that was granted in a term which is known for certain.
func (s *session) grantInKnownTerm(ctx context.Context, ttl time.Duration) (*etcdLease, error) {
	for {
		known := s.d.cluster.Term()
		g, err := s.d.cluster.Grant(ctx, s.attemptLimit(), ttl, s.d.revokeOrphan)
		if err != nil {
			return nil, err
		}
		if grantedIn(known, g.Term) {
			return &etcdLease{id: g.ID, term: g.Term, ttl: g.TTL, base: g.Sent, keepalive: g.Keepalive}, nil
		}
		s.d.revokeOrphan(g.ID) // it may be of the term before; by now the term is known
		if compareTerms(known, g.Term) == earlierTerm {
			// A write can't be committed in an older term than one that was seen: this cluster was
			// founded again, or restored, without the data that it had.
			s.d.cluster.SetBackTerm(known, g.Term)
		}
	}
}

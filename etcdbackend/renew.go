package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// A renewal is a keepalive of the session's etcd lease and then, sent when that was answered, Txns
// that check the keys: a keepalive says nothing about them, and the Txns are what proves it
// (proof.go). When there is a new leader, the keys are moved to a new etcd lease instead.

const maxChecks = 128 // etcd's limit for the compares, and for the operations, of one Txn (--max-txn-ops)

var errSuperseded = errors.New("the cluster's leader changes too fast to prove the lease again")

// lockAt is the lock with that index in a call of Renew.
type lockAt struct {
	i int
	l *lock
}

// report takes the outcome for a lock of a Renew, by its index.
type report func(i int, base driver.Instant, err error)

// Renew asks the sessions in parallel.
func (d *etcdDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	parts := make(map[*session][]lockAt, 1)
	for i, l := range locks {
		l := l.(*lock)
		parts[l.session] = append(parts[l.session], lockAt{i, l})
	}
	kit.Parallel(maxParallel, slices.Collect(maps.Keys(parts)), func(s *session) { s.renew(ctx, parts[s], report) })
}

// renew reports each of its locks once.
func (s *session) renew(ctx context.Context, left []lockAt, report report) {
	var err error
	for tries := 0; len(left) > 0 && tries < 3 && ctx.Err() == nil; tries++ {
		if tries > 0 || !s.hasUnproved(s.ttl/6) {
			if err = s.refresh(ctx); err != nil {
				break
			}
		}
		e, k := s.current()
		left = s.renewOn(ctx, e, k, left, report)
	}
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = s.reason(locker.ErrNoAnswer)
	default:
		err = errSuperseded
	}
	fail(left, err, report)
}

// fail reports the locks of a request that must not be repeated. When the cluster was exchanged, a
// place in the queue is given up: nothing would end the wait.
func fail(locks []lockAt, err error, report report) {
	for _, r := range locks {
		r.l.mu.Lock()
		waits := !r.l.place.first
		r.l.mu.Unlock()
		if waits && etcdconn.IsExchanged(err) {
			report(r.i, 0, fmt.Errorf("%w: %w", locker.ErrLost, err))
			continue
		}
		report(r.i, 0, err)
	}
}

// renewOn checks the keys that are attached to e, and moves the others to it. It returns the locks
// for which a newer etcd lease is worth an attempt, and reports the others.
func (s *session) renewOn(
	ctx context.Context, e *etcdLease, k etcdconn.Keepalive, locks []lockAt, report report,
) (left []lockAt) {
	var here, elsewhere []lockAt
	for _, r := range locks {
		if r.l.usesLease(e) {
			here = append(here, r)
		} else {
			elsewhere = append(elsewhere, r)
		}
	}
	var tasks []func() []lockAt
	for part := range slices.Chunk(here, maxChecks) {
		tasks = append(tasks, func() []lockAt { return s.check(ctx, e, k, part, report) })
	}
	for part := range slices.Chunk(elsewhere, maxChecks) {
		tasks = append(tasks, func() []lockAt { return s.move(ctx, e, k, part, report) })
	}
	var mu sync.Mutex
	kit.Parallel(maxParallel, tasks, func(task func() []lockAt) {
		rest := task()
		mu.Lock()
		defer mu.Unlock()
		left = append(left, rest...)
	})
	return left
}

// usesLease reports whether the lock's Base is e's.
func (l *lock) usesLease(e *etcdLease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.lease == e
}

// check asks whether keys that are attached to e exist. For each lock that waits, one key before
// its own is read as well: a delete may have been missed.
func (s *session) check(
	ctx context.Context, e *etcdLease, k etcdconn.Keepalive, part []lockAt, report report,
) (left []lockAt) {
	locks := make([]*lock, len(part))
	var then []clientv3.Op
	var waiting []*lock
	var ahead []string // of the waiting
	for i, r := range part {
		locks[i] = r.l
		r.l.mu.Lock()
		key := r.l.place.checkKey()
		r.l.mu.Unlock()
		if key != "" {
			waiting, ahead = append(waiting, r.l), append(ahead, key)
			then = append(then, clientv3.OpGet(key, clientv3.WithKeysOnly()))
		}
	}
	cmps, els := checksOf(locks)
	if len(then) == 0 {
		then = els[:1] // a Txn that reads nothing isn't linearizable
	}
	r, err := s.d.cluster.Txn(ctx, s.attemptLimit(), cmps, then, els)
	if err != nil {
		fail(part, err, report)
		return nil
	}
	base := s.prove(e, k, r)
	if compareTerms(e.term, r.Header.RaftTerm) == laterTerm {
		return part
	}
	if r.Succeeded {
		for i, l := range waiting {
			if !l.isBefore(r.Responses[i].GetResponseRange().Kvs) {
				l.keyMissing(ahead[i], r.Header.Revision)
			}
		}
	}
	for i, one := range part {
		if r.Succeeded {
			one.l.sawAt(r.Header.Revision)
		} else if err := one.l.sawKey(r.Responses[i].GetResponseRange().Kvs, r.Header.Revision); err != nil {
			report(one.i, 0, err)
			continue
		}
		report(one.i, base, nil)
	}
	return nil
}

// checksOf returns compares that hold if all keys exist as they are known, and the reads of these
// keys.
func checksOf(locks []*lock) (cmps []clientv3.Cmp, reads []clientv3.Op) {
	for _, l := range locks {
		cmps = append(cmps, l.isAsKnown())
		reads = append(reads, clientv3.OpGet(l.key))
	}
	return cmps, reads
}

// isAsKnown holds if nobody has deleted the key, marked it or moved it since it was seen. No two
// Txns of a cluster have the same revision, and none writes a key twice.
func (l *lock) isAsKnown() clientv3.Cmp {
	l.mu.Lock()
	defer l.mu.Unlock()
	return clientv3.Compare(clientv3.ModRevision(l.key), "=", l.known.modified)
}

// move attaches keys to e, if they are as they are known. So a move that is late does nothing, and a
// key that is marked stays where it is. The Base of e is newer than any that was reported before.
//
// One key that has changed, such as one that was released just now, keeps all keys of its request where
// they are. So the others are moved again at once, in two requests.
func (s *session) move(
	ctx context.Context, e *etcdLease, k etcdconn.Keepalive, locks []lockAt, report report,
) (left []lockAt) {
	var cmps []clientv3.Cmp
	var then, els []clientv3.Op
	var part []lockAt
	for _, r := range locks {
		if !r.l.beginMove(e) {
			left = append(left, r)
			continue
		}
		part = append(part, r)
		cmps = append(cmps, r.l.isAsKnown())
		then = append(then, clientv3.OpPut(r.l.key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(e.id)))
		els = append(els, clientv3.OpGet(r.l.key))
	}
	if len(part) == 0 {
		return left
	}
	r, err := s.d.cluster.Txn(ctx, s.attemptLimit(), cmps, then, els)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.retire(e)
		return locks
	case err != nil:
		fail(part, err, report)
		return left
	}
	base := s.prove(e, k, r)
	var rest []lockAt
	for i, one := range part {
		if !r.Succeeded {
			kvs := r.Responses[i].GetResponseRange().Kvs
			if err := one.l.sawKey(kvs, r.Header.Revision); err != nil {
				report(one.i, 0, err)
				continue
			}
			if clientv3.LeaseID(kvs[0].Lease) != e.id {
				rest = append(rest, one)
				continue
			}
			one.l.moved(e, kvs[0].ModRevision, r.Header.Revision)
		} else {
			one.l.moved(e, r.Header.Revision, r.Header.Revision)
		}
		report(one.i, base, nil)
	}
	if len(part) == 1 || len(rest) == 0 {
		return append(left, rest...)
	}
	for half := range slices.Chunk(rest, (len(rest)+1)/2) {
		left = append(left, s.move(ctx, e, k, half, report)...)
	}
	return left
}

// beginMove notes that the key may be attached to e. It is false when e is retired.
func (l *lock) beginMove(e *etcdLease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remains.beginMove(l.session, e)
}

// moved notes that the key, with that mod revision, was attached to e at a revision.
func (l *lock) moved(e *etcdLease, modified, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.modified = max(l.known.modified, modified)
	l.known.lastSeen = max(l.known.lastSeen, revision)
	if l.remains.moved(l.session, e) {
		l.known.lease = e
	}
}

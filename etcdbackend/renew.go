package etcdbackend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// A renewal is a keepalive of the session's etcd lease and then, sent when that was answered, Txns that check the keys:
// a keepalive says nothing about them, and the Txns are what proves it (proof.go). When there is a new leader, the keys
// are moved to a new etcd lease instead.

const (
	maxChecks = 128 // etcd's limit for the compares, and for the operations, of one Txn (--max-txn-ops)
	maxMoves  = maxChecks / 2
)

// renewal is one lock of a Renew.
type renewal struct {
	i int
	l *lock
}

// Renew asks the sessions side by side.
func (d *etcdDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	parts := make(map[*session][]renewal, 1)
	for i, l := range locks {
		l := l.(*lock)
		parts[l.session] = append(parts[l.session], renewal{i, l})
	}
	parallel(slices.Collect(maps.Keys(parts)), func(s *session) { s.renew(ctx, parts[s], report) })
}

// renew reports each of its locks once.
func (s *session) renew(ctx context.Context, left []renewal, report func(int, driver.Instant, error)) {
	var err error
	for tries := 0; len(left) > 0 && tries < 3 && ctx.Err() == nil; tries++ {
		if tries > 0 || !s.unproved(s.ttl()/6) {
			if err = s.refresh(ctx); err != nil {
				break
			}
		}
		g, b := s.newest()
		left = s.renewOn(ctx, g, b, left, report)
	}
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = s.overdue(errNoAnswer)
	default:
		err = errSuperseded
	}
	fail(left, err, report)
}

// fail reports the locks of a request that it is no use to try again. When the cluster was
// exchanged, a place in the queue is given up: nothing would end the wait.
func fail(locks []renewal, err error, report func(int, driver.Instant, error)) {
	for _, r := range locks {
		if exchanged(err) && r.l.waits() {
			report(r.i, 0, fmt.Errorf("%w: %w", locker.ErrLost, err))
			continue
		}
		report(r.i, 0, err)
	}
}

// renewOn checks the keys that hang on g, and moves the others to it. It returns those for which a newer etcd lease is worth a
// try, and reports the others.
func (s *session) renewOn(ctx context.Context, g *generation, b beat, locks []renewal, report func(int, driver.Instant, error)) []renewal {
	var here, elsewhere []renewal
	for _, r := range locks {
		if r.l.on(g) {
			here = append(here, r)
		} else {
			elsewhere = append(elsewhere, r)
		}
	}
	var tasks []func() []renewal
	for part := range slices.Chunk(here, maxChecks) {
		tasks = append(tasks, func() []renewal { return s.check(ctx, g, b, part, report) })
	}
	for part := range slices.Chunk(elsewhere, maxMoves) {
		tasks = append(tasks, func() []renewal { return s.move(ctx, g, b, part, report) })
	}
	var mu sync.Mutex
	var left []renewal
	parallel(tasks, func(task func() []renewal) {
		rest := task()
		mu.Lock()
		defer mu.Unlock()
		left = append(left, rest...)
	})
	return left
}

// check asks whether keys on g exist. For each lock that waits, one key before its own is read as
// well: a message may have got lost.
func (s *session) check(ctx context.Context, g *generation, b beat, part []renewal, report func(int, driver.Instant, error)) []renewal {
	locks := make([]*lock, len(part))
	var then []clientv3.Op
	var waiting []*lock
	var signs []string // of those
	for i, r := range part {
		locks[i] = r.l
		if sign := r.l.sign(); sign != "" {
			waiting, signs = append(waiting, r.l), append(signs, sign)
			then = append(then, clientv3.OpGet(sign, clientv3.WithKeysOnly()))
		}
	}
	cmps, els := checks(locks)
	if len(then) == 0 {
		then = els[:1] // a Txn that reads nothing isn't linearizable
	}
	r, err := s.d.server.txn(ctx, s.attemptLimit(), cmps, then, els)
	if err != nil {
		fail(part, err, report)
		return nil
	}
	base := s.prove(g, b, r.linear)
	if compareTerms(g.term, r.term) == superseded {
		return part
	}
	if !r.Succeeded {
		for i, one := range part {
			if one.l.checked(r.Responses[i].GetResponseRange().Kvs, r.Header.Revision) {
				report(one.i, base, nil)
			} else {
				report(one.i, 0, errGone)
			}
		}
		return nil
	}
	for i, l := range waiting {
		if len(r.Responses[i].GetResponseRange().Kvs) == 0 {
			l.passed(signs[i])
		}
	}
	for _, one := range part {
		one.l.stoodAt(r.Header.Revision)
		report(one.i, base, nil)
	}
	return nil
}

// checks are the compares by which keys stand, and what reads them if not all do.
func checks(locks []*lock) (cmps []clientv3.Cmp, reads []clientv3.Op) {
	for _, l := range locks {
		cmps = append(cmps, Owner{l.key, l.revision}.IsOwner())
		reads = append(reads, clientv3.OpGet(l.key, clientv3.WithKeysOnly()))
	}
	return cmps, reads
}

// move puts keys anew under g, if they stand and hang on the etcd lease that is known. A move that is late does nothing:
// by then the key hangs on another one. The Base of g is newer than any that was reported before.
func (s *session) move(ctx context.Context, g *generation, b beat, locks []renewal, report func(int, driver.Instant, error)) (left []renewal) {
	var cmps []clientv3.Cmp
	var then, els []clientv3.Op
	var part []renewal
	for _, r := range locks {
		from, ok := r.l.moves(g)
		if !ok {
			left = append(left, r)
			continue
		}
		part = append(part, r)
		cmps = append(cmps, Owner{r.l.key, r.l.revision}.IsOwner(), clientv3.Compare(clientv3.LeaseValue(r.l.key), "=", from))
		then = append(then, clientv3.OpPut(r.l.key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(g.id)))
		els = append(els, clientv3.OpGet(r.l.key, clientv3.WithKeysOnly()))
	}
	if len(part) == 0 {
		return left
	}
	r, err := s.d.server.txn(ctx, s.attemptLimit(), cmps, then, els)
	switch {
	case isLeaseNotFound(err):
		s.retire(g)
		return locks
	case err != nil:
		fail(part, err, report)
		return left
	}
	base := s.prove(g, b, r.linear)
	for i, one := range part {
		if !r.Succeeded {
			kvs := r.Responses[i].GetResponseRange().Kvs
			if !one.l.checked(kvs, r.Header.Revision) {
				report(one.i, 0, errGone)
				continue
			}
			if lease := clientv3.LeaseID(kvs[0].Lease); lease != g.id {
				one.l.hangsOn(lease)
				left = append(left, one)
				continue
			}
		}
		one.l.stoodAt(r.Header.Revision)
		one.l.moved(g)
		report(one.i, base, nil)
	}
	return left
}

var errGone = fmt.Errorf("%w: %w", locker.ErrLost, errDeleted)

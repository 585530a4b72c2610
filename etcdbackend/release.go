package etcdbackend

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// Release deletes the key, if it has the create revision that is known: the next acquisition may have
// it already when a copy of this request is executed.
//
// Where a request that puts the key may still be on its way, the guard key is written before, which
// stops that request. Then the key is also deleted if it has another create revision: the request may
// have put it a second time after it was deleted by hand, and the key's name is never used again.
//
// No create revision is known either after a put that failed because the cluster has no space. It may have
// been executed, and won't be from now on: so no guard key is needed.
func (l *lock) Release(ctx context.Context) error {
	if l.session == nil {
		return nil
	}
	l.d.watches.forget(l)
	if err := l.remove(ctx); err != nil {
		l.d.keyNames.retire(l.keyName)
		return err
	}
	removedBefore := false // an earlier Release has given everything back
	l.update(func() {
		removedBefore = l.remains.removed
		l.remains.wasRemoved(l.session)
	})
	if !removedBefore {
		l.d.keyNames.giveBack(l.dir, l.keyName)
		l.d.sessions.Leave(l.session)
	}
	return nil
}

func (l *lock) remove(ctx context.Context) error {
	l.mu.Lock()
	remains := l.remains
	leases := slices.Clone(remains.leases)
	created := l.known.created
	l.mu.Unlock()
	if !remains.possible && !remains.late {
		return nil
	}
	var err error
	if remains.late {
		for _, e := range leases {
			err = etcdconn.Join(err, l.fenceLatePuts(ctx, e, remains.guard))
		}
	}
	// Also when the guard key could not be written: a cluster without space lets nobody write, and
	// everybody delete.
	var found []clientv3.Op
	if remains.late || created == 0 {
		found = append(found, clientv3.OpGet(l.key))
	}
	r, failed := l.deleteKey(ctx, created, found...)
	if len(found) > 0 && failed == nil && !r.Succeeded {
		if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 && l.hasLeft(kvs[0], leases) {
			_, failed = l.deleteKey(ctx, kvs[0].CreateRevision)
		}
	}
	return etcdconn.Join(err, failed)
}

// hasLeft reports whether a request of this acquisition has put the key, and not somebody else.
func (l *lock) hasLeft(kv *mvccpb.KeyValue, leases []*etcdLease) bool {
	value, _ := kit.ReadMarked(string(kv.Value))
	return value == l.value && slices.ContainsFunc(leases, func(e *etcdLease) bool { return e.id == clientv3.LeaseID(kv.Lease) })
}

// deleteKey deletes the key if it has that create revision; otherwise it does what els says. With 0 it
// compares that there is no key: nothing is deleted then, and els is done if there is one.
func (l *lock) deleteKey(ctx context.Context, created int64, els ...clientv3.Op) (etcdconn.Reply, error) {
	return l.d.cluster.Txn(ctx, l.session.attemptLimit(),
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(l.key), "=", created)},
		[]clientv3.Op{clientv3.OpDelete(l.key)}, els)
}

// fenceLatePuts makes sure that no late request of this acquisition attaches its key to e. compared
// is the latest revision of the guard key that such a request compares.
func (l *lock) fenceLatePuts(ctx context.Context, e *etcdLease, compared int64) error {
	if l.session.guardOf(e) > compared {
		return nil // another acquisition has written it since
	}
	r, err := l.d.cluster.Txn(ctx, l.session.attemptLimit(), nil, []clientv3.Op{
		clientv3.OpPut(guardKeyOf(l.d.prefix, e.id), "", clientv3.WithLease(e.id)),
	}, nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // nothing can be attached to it any more
		return nil
	case err != nil:
		return err
	}
	l.session.sawGuard(e, r.Header.Revision)
	return nil
}

// remains is what may exist of an acquisition in the cluster, or on its way there. The lock's mutex
// guards it.
type remains struct {
	possible bool         // the key may exist, or be on its way
	late     bool         // a copy of a request that puts the key may still be executed
	guard    int64        // the latest revision of a guard key that such a request compared
	leases   []*etcdLease // all that the key may be attached to; each is used
	removed  bool         // Release has made sure that there is nothing
}

// beginPut notes, before a request that puts the key, that the key may be attached to e, which is used
// for that.
func (r *remains) beginPut(s *session, e *etcdLease, guard int64) {
	r.possible, r.guard = true, max(r.guard, guard)
	if slices.Contains(r.leases, e) {
		s.leave(e)
		return
	}
	r.leases = append(r.leases, e)
}

// wasNotPut notes that the request of beginPut has not put the key. That says nothing while a copy of
// an earlier request is late.
func (r *remains) wasNotPut(s *session, e *etcdLease) {
	if r.late {
		return
	}
	r.possible = false
	r.leases = slices.DeleteFunc(r.leases, func(other *etcdLease) bool { return other == e })
	s.leave(e)
}

// beginMove notes, before a request that moves the key, that the key may be attached to e. It is false
// when e is retired: nothing extends it. A later etcd lease can't be known before e is retired, so
// a slow move doesn't take the key back.
func (r *remains) beginMove(s *session, e *etcdLease) bool {
	if !s.tryUse(e) {
		return false
	}
	if r.removed || slices.Contains(r.leases, e) {
		s.leave(e)
	} else {
		r.leases = append(r.leases, e)
	}
	return true
}

// moved notes that the key is attached to e. As long as a request may be late that attaches the key
// to another etcd lease, that one stays in use. It is false when e is not in use any more: the
// answer is old, and a later move, or Release, has been faster.
func (r *remains) moved(s *session, e *etcdLease) bool {
	if !slices.Contains(r.leases, e) {
		return false
	}
	if !r.late {
		for _, other := range r.leases {
			if other != e {
				s.leave(other)
			}
		}
		r.leases = []*etcdLease{e}
	}
	return true
}

// wasRemoved notes that there is nothing, and that nothing can come to exist.
func (r *remains) wasRemoved(s *session) {
	for _, e := range r.leases {
		s.leave(e)
	}
	*r = remains{removed: true, guard: r.guard}
}

package etcdbackend

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/internal/etcdconn"
)

// Release deletes the key. Where a request that puts it may still be on its way, the guard key is
// written before, which stops that request.
//
// Which create revision the key has makes no difference: its name is that of this acquisition alone,
// and a late request may have put it a second time after it was deleted by hand.
func (l *lock) Release(ctx context.Context) error {
	if l.session == nil {
		return nil
	}
	l.d.watches.forget(l)
	if err := l.remove(ctx); err != nil {
		return err
	}
	l.update(func() { l.footprint.remove(l.session) })
	l.d.sessions.Leave(l.session)
	return nil
}

func (l *lock) remove(ctx context.Context) error {
	l.mu.Lock()
	f := l.footprint
	leases := slices.Clone(f.leases)
	l.mu.Unlock()
	if !f.possible && !f.late {
		return nil
	}
	var err error
	if f.late {
		for _, e := range leases {
			err = etcdconn.Join(err, l.fenceLatePuts(ctx, e, f.guard))
		}
	}
	// Also when the guard key could not be written: a cluster without space lets nobody write, and
	// everybody delete.
	_, failed := l.d.cluster.Txn(ctx, l.session.attemptLimit(), nil, []clientv3.Op{clientv3.OpDelete(l.key)}, nil)
	return etcdconn.Join(err, failed)
}

// fenceLatePuts makes sure that no late request of this acquisition attaches its key to e. compared is
// the latest revision of the guard key that such a request compares.
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

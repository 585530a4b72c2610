package etcdbackend

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Release deletes the key. Where a request that puts it may still be on its way, the guard key is written before, which
// stops that request.
//
// Which create revision the key has makes no difference: its name is that of this acquisition alone, and a request that was
// late may have put it a second time after somebody had deleted it.
func (l *lock) Release(ctx context.Context) error {
	if l.session == nil {
		return nil
	}
	l.d.watches.forget(l)
	if err := l.remove(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	holds := l.holds
	l.asked, l.late, l.holds, l.released = false, false, nil, true
	l.mu.Unlock()
	for _, g := range holds {
		l.session.drop(g)
	}
	l.d.part(l.session)
	return nil
}

func (l *lock) remove(ctx context.Context) error {
	l.mu.Lock()
	asked, late, holds := l.asked, l.late, slices.Clone(l.holds)
	l.mu.Unlock()
	if !asked && !late {
		return nil
	}
	var err error
	if late {
		for _, g := range holds {
			err = allOf(err, l.guardFrom(ctx, g))
		}
	}
	// Also when the guard key couldn't be written: a cluster without space lets nobody write, and everybody delete.
	_, failed := l.d.server.txn(ctx, l.session.attemptLimit(), nil, []clientv3.Op{clientv3.OpDelete(l.key)}, nil)
	return allOf(err, failed)
}

// guardFrom makes sure that no request of this acquisition that is late puts its key on g.
func (l *lock) guardFrom(ctx context.Context, g *generation) error {
	l.mu.Lock()
	compared := l.guard
	l.mu.Unlock()
	if l.session.guardOf(g) > compared {
		return nil // another acquisition has written it since
	}
	r, err := l.d.server.txn(ctx, l.session.attemptLimit(), nil, []clientv3.Op{
		clientv3.OpPut(guardOf(l.d.prefix, g.id), "", clientv3.WithLease(g.id)),
	}, nil)
	switch {
	case isLeaseNotFound(err): // nothing can hang on it any more
		return nil
	case err != nil:
		return err
	}
	l.session.guarded(g, r.Header.Revision)
	return nil
}

package etcdbackend

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// wait waits for the turn of a lock whose key is in the queue.
func (l *lock) wait(ctx context.Context) (driver.Grant, error) {
	for {
		l.mu.Lock()
		first, gone, mustRead := l.place.first, l.known.gone, l.place.mustRead
		l.mu.Unlock()
		switch {
		case gone:
			l.lost(errGone) // not an error of the wait, which goes on with a new acquisition
			return driver.Grant{}, errGone
		case first:
			return l.granted()
		case mustRead && ctx.Err() == nil:
			if err := l.readAhead(ctx); err != nil { // the place exists as long as renewals say so
				_ = l.place.changed.Wait(ctx, l.ttl/20)
			}
			continue
		}
		select {
		case <-l.place.changed:
		case <-ctx.Done():
			return driver.Grant{}, context.Cause(ctx)
		}
	}
}

// granted returns the grant of a lock whose turn it is. Its Base is that of the etcd lease that the
// key is attached to, which need not be the newest one.
//
// The key may have been deleted in the same revision as the last key before it. Both deletes are in
// one response, and hold waits until that was taken in: so it is known here. The watch of a held key
// reports later deletes.
func (l *lock) granted() (driver.Grant, error) {
	l.d.watches.hold(l)
	l.mu.Lock()
	token, e, gone := locker.Token(l.known.created), l.known.lease, l.known.gone
	l.mu.Unlock()
	if gone {
		l.lost(errGone) // not an error of the wait, which goes on with a new acquisition
		return driver.Grant{}, errGone
	}
	return driver.Grant{Token: token, Base: l.session.baseOf(e), TTL: e.ttl}, nil
}

// readAhead reads which keys exist before this one.
func (l *lock) readAhead(ctx context.Context) error {
	l.update(l.place.begin)
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	ahead := clientv3.OpGet(l.dir, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(page),
		clientv3.WithMaxCreateRev(l.known.created-1))
	r, err := l.d.cluster.Txn(limited, l.session.attemptLimit(), nil, []clientv3.Op{clientv3.OpGet(l.key), ahead}, nil)
	if err != nil {
		l.update(l.place.readFailed)
		return err
	}
	l.sawKey(r.Responses[0].GetResponseRange().Kvs, r.Header.Revision)
	others := r.Responses[1].GetResponseRange()
	l.update(func() { l.place.read(l.key, entriesOf(others.Kvs), others.More) })
	l.listen(r.Header.Revision)
	return nil
}

// listen watches what there is to watch after a read at a revision.
func (l *lock) listen(revision int64) {
	l.mu.Lock()
	first, watchKey := l.place.first, l.place.watchKey
	l.mu.Unlock()
	switch {
	case first:
	case watchKey != "":
		l.d.watches.joinFar(l, watchKey, revision)
	default:
		l.d.watches.joinNear(l)
	}
}

// watchBegun is called when all keys of the name are watched from now on: keys that were deleted
// before must be read.
func (l *lock) watchBegun() { l.update(l.place.readAgain) }

// keyDeleted takes in that a key of the name was deleted. Deletes are reported in the order of their
// revisions: so the own key existed then, unless it was deleted before, or is deleted in the same
// revision and reported next (see granted).
func (l *lock) keyDeleted(key string, revision int64) {
	if key == l.key {
		l.isGone()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known.gone {
		l.known.lastSeen = max(l.known.lastSeen, revision)
	}
	l.place.wasDeleted(key)
}

// keyMissing takes in that a renewal has found a key before this one gone.
func (l *lock) keyMissing(key string) {
	l.d.watches.approach(l, key)
	l.update(func() { l.place.missed(key) })
}

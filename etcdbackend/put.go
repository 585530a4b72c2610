package etcdbackend

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// # When a put may be late
//
// A put that got no answer, or that was sent more than once, may still be executed. Then the acquisition
// remembers it (remains.late), and the Locker names no other key with this id (noteLate).
//
//   - If the next copy of the put finds a key, the etcd lease and the value tell whether an earlier copy has
//     put it (hasPut). If not, it is somebody else's, and the acquisition takes another key (changeKey).
//   - Release writes the guard key of each etcd lease that such a put attaches the key to (fenceLatePuts). Each
//     put compares the guard key, so a late one does nothing from then on. Then Release deletes the key, also
//     with a create revision that wasn't known (hasLeft).
//   - The key's name is never used again.

var (
	// errGuarded says that the guard key was not as expected, so that nothing was put.
	errGuarded = errors.New("the guard key has changed")

	// errNotOwn says that another acquisition has or had the same key: somebody else has put it, such as a
	// copy of this process (a virtual machine that was cloned), or the cluster was set back.
	errNotOwn = errors.New("the key is not the acquisition's own")
)

// put puts the key, attached to e, in one Txn: if the key is new, and the guard key is as it is
// known, and, for a caller that doesn't wait, no other key exists. The Txn reads which keys exist
// before it.
func (l *lock) put(ctx context.Context, e *etcdLease, keepalive etcdconn.Keepalive) (driver.Grant, error) {
	s := l.session
	guardKey, guard := guardKeyOf(l.d.prefix, e.id), s.guardOf(e)
	cmps := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(l.key), "=", 0),
		clientv3.Compare(clientv3.ModRevision(guardKey), "=", guard),
	}
	then := []clientv3.Op{clientv3.OpPut(l.key, l.value, clientv3.WithLease(e.id)), l.keys(page + 1)}
	els := []clientv3.Op{clientv3.OpGet(l.key), clientv3.OpGet(guardKey)}
	if l.noWait {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(l.dir).WithPrefix(), "=", 0))
		els = append(els, l.keys(1))
	}

	l.update(func() {
		l.place.begin()
		l.remains.beginPut(s, e, guard)
		l.known.lease = e
	})
	if !l.noWait {
		l.d.watches.joinWatched(l)
	}
	r, err := l.sendPut(ctx, cmps, then, els)
	switch {
	case etcdconn.IsNoSpace(err): // Release finds out whether it was put
		return driver.Grant{}, err
	case err != nil:
		l.update(func() { l.remains.wasNotPut(s, e) })
		return driver.Grant{}, err
	}
	s.prove(e, keepalive, r)
	if r.Succeeded {
		keys := r.Responses[1].GetResponseRange()
		put := &mvccpb.KeyValue{CreateRevision: r.Header.Revision, ModRevision: r.Header.Revision}
		return l.wasPut(put, r.Header.Revision, entriesOf(keys.Kvs), keys.More)
	}
	own, guards := r.Responses[0].GetResponseRange(), r.Responses[1].GetResponseRange()
	if len(own.Kvs) > 0 && l.hasPut(own.Kvs[0], e) { // which keys exist before it must still be read
		return l.wasPut(own.Kvs[0], r.Header.Revision, nil, !l.noWait)
	}
	l.update(func() { l.remains.wasNotPut(s, e) })
	found := int64(0)
	if len(guards.Kvs) > 0 {
		found = guards.Kvs[0].ModRevision
	}
	switch {
	case len(own.Kvs) > 0:
		return driver.Grant{}, errNotOwn
	case l.noWait && r.Responses[2].GetResponseRange().Count > 0:
		return driver.Grant{}, locker.ErrHeld
	case found < guard: // it was removed with its etcd lease, or the cluster was set back
		return driver.Grant{}, rpctypes.ErrLeaseNotFound
	}
	s.sawGuard(e, found)
	return driver.Grant{}, errGuarded
}

// sendPut sends the Txn of put.
func (l *lock) sendPut(ctx context.Context, cmps []clientv3.Cmp, then, els []clientv3.Op) (r etcdconn.Reply, err error) {
	settled := false
	defer func() {
		if !settled { // also after a panic of the client
			l.noteLate()
		}
	}()
	r, err = l.d.cluster.Txn(ctx, l.session.attemptLimit(), cmps, then, els)
	settled = !r.Late
	return r, err
}

// noteLate records that a copy of a request that puts the key may still be executed.
func (l *lock) noteLate() {
	l.update(func() { l.remains.late = true })
	l.d.keyNames.retire(l.keyName)
}

// hasPut reports whether the key that a put has found was put by a copy of the same request: by one that is
// late, or that something in between has repeated. It is recorded as by noteLate, because there may be more of
// them.
func (l *lock) hasPut(kv *mvccpb.KeyValue, e *etcdLease) bool {
	if clientv3.LeaseID(kv.Lease) != e.id || string(kv.Value) != l.value {
		return false
	}
	l.noteLate()
	return true
}

// changeKey takes another key, under another id, and deletes the one before if the acquisition has put it.
func (l *lock) changeKey(ctx context.Context) error {
	l.d.keyNames.retire(l.keyName)
	l.d.watches.forget(l) // so nobody else reads the key
	if err := l.remove(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remains.wasRemoved(l.session)
	l.remains.removed = false
	l.known, l.place = keyState{}, place{}
	l.key, l.keyName = l.d.keyNames.take(l.dir)
	return nil
}

// keys reads the keys of all acquisitions of the name, up to a limit.
func (l *lock) keys(limit int64) clientv3.Op {
	return clientv3.OpGet(l.dir, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(limit))
}

// wasPut records that the key exists. keys existed at that revision, its own and those before it;
// more says that there are others, or may be.
func (l *lock) wasPut(own *mvccpb.KeyValue, revision int64, keys []entry, more bool) (driver.Grant, error) {
	l.mu.Lock()
	l.known.created, l.known.modified = own.CreateRevision, own.ModRevision
	deleted := l.place.deleted[l.key] > own.CreateRevision
	l.mu.Unlock()
	if !l.d.keyNames.noteCreated(l.keyName, own.CreateRevision) {
		return driver.Grant{}, errNotOwn
	}
	if deleted {
		l.noteGone()
	}
	_ = l.sawKey([]*mvccpb.KeyValue{own}, revision) // a mark ends the lease when it is granted
	l.mu.Lock()
	first := l.place.read(l.key, keys, more)
	l.mu.Unlock()
	if first {
		return l.granted()
	}
	l.listen(revision)
	return driver.Grant{}, driver.ErrQueued
}

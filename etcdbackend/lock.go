package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// lock is one acquisition.
//
// Mutexes are taken in this order: the watches', a lock's, a session's, the driver's or the key names'.
type lock struct {
	d          *etcdDriver
	dir        string        // what the keys of all acquisitions of the name begin with
	key        string        // from the first Acquire on
	name       keyName       // of the key
	label      string        // the key's value: see driver.Label
	ttl        time.Duration // in whole seconds
	noWait     bool
	noRenewal  bool // its whole TTL must be left when it is granted
	notifyLost func(cause error)
	session    *session // from the first Acquire on

	mu      sync.Mutex
	known   keyState
	place   place
	remains remains
}

// keyState is what renewals, reads and watches have found out about a lock's key.
type keyState struct {
	created  int64 // its create revision, which is the token; 0: not known to exist
	modified int64 // its mod revision, as far as it is known: moves and marks change it
	lastSeen int64 // a revision of the cluster at which it existed without a mark
	over     error // it is gone, or marked; nil: not as far as is known

	lease *etcdLease // the Base comes from this one
}

var (
	errGone = fmt.Errorf("%w: its key is gone: it was deleted, or the etcd lease that it was attached to was revoked or has expired", locker.ErrLost)

	// errGuarded says that the guard key was not as expected, so that nothing was put.
	errGuarded = errors.New("the guard key has changed")

	// errNotOwn says that the key can't be told from that of another acquisition. Somebody else has put it,
	// such as a copy of this process (a virtual machine that was cloned); or the cluster was set back.
	errNotOwn = errors.New("the key is not the acquisition's own")
)

// Acquire puts the key. If others exist before it, the key is the place in the queue, and the next
// call waits.
//
// A request that was sent is not given up at once when ctx ends: its outcome is worth more to the
// clean-up than a moment.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if l.session == nil {
		s, err := l.d.sessions.Join(context.WithoutCancel(ctx), l.ttl) // it waits for nothing
		if err != nil {
			return driver.Grant{}, err
		}
		l.session = s
		l.key, l.name = l.d.names.take(l.dir)
		l.dir = l.key[:len(l.dir)] // one text in memory
	}
	if l.isQueued() {
		return l.wait(ctx)
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestLimit+reasonLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(l.session.attemptLimit(), cancel) })
	defer stop()
	age := l.ttl * 2 / 5 // the engine would renew a lease whose Base is older than half of its TTL
	if l.noRenewal {
		age = l.ttl / 20
	}
	for {
		if ctx.Err() != nil {
			return driver.Grant{}, context.Cause(ctx)
		}
		e, keepalive, err := l.session.use(limited, age)
		if err != nil {
			return driver.Grant{}, err
		}
		grant, err := l.put(limited, e, keepalive)
		switch {
		case errors.Is(err, errGuarded):
		case errors.Is(err, errNotOwn):
			if err := l.changeKey(limited); err != nil {
				return driver.Grant{}, err
			}
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			l.session.retire(e)
		default:
			return grant, err
		}
	}
}

func (l *lock) isQueued() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.created != 0
}

// page is how many keys are read at once of those before a waiter's.
const page = 100

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
	then := []clientv3.Op{clientv3.OpPut(l.key, l.label, clientv3.WithLease(e.id)), l.keys(page + 1)}
	els := []clientv3.Op{clientv3.OpGet(l.key), clientv3.OpGet(guardKey)}
	if l.noWait {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(l.dir).WithPrefix(), "=", 0))
		els = append(els, l.keys(1))
	}

	l.update(func() {
		l.place.begin()
		l.remains.asks(s, e, guard)
		l.known.lease = e
	})
	if !l.noWait {
		l.d.watches.joinWatched(l)
	}
	r, err := l.sendPut(ctx, cmps, then, els)
	if err != nil {
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
	switch {
	case len(own.Kvs) > 0:
		return driver.Grant{}, errNotOwn
	case l.noWait && r.Responses[2].GetResponseRange().Count > 0:
		return driver.Grant{}, locker.ErrHeld
	case len(guards.Kvs) == 0 && guard != 0: // it was removed with its etcd lease
		return driver.Grant{}, rpctypes.ErrLeaseNotFound
	case len(guards.Kvs) > 0:
		s.sawGuard(e, guards.Kvs[0].ModRevision)
	}
	return driver.Grant{}, errGuarded
}

// sendPut sends the Txn of put.
func (l *lock) sendPut(ctx context.Context, cmps []clientv3.Cmp, then, els []clientv3.Op) (r etcdconn.Reply, err error) {
	settled := false
	defer func() {
		if !settled { // also after a panic of the client
			l.mayBeLate()
		}
	}()
	r, err = l.d.cluster.Txn(ctx, l.session.attemptLimit(), cmps, then, els)
	settled = !r.Late
	return r, err
}

// mayBeLate records that a copy of a request that puts the key may still be executed.
func (l *lock) mayBeLate() {
	l.update(func() { l.remains.late = true })
	l.d.names.retire(l.name)
}

// hasPut reports whether a copy of the request that has found the key has put it. If no copy is known to
// be late, the label must say so: something between may repeat requests.
func (l *lock) hasPut(kv *mvccpb.KeyValue, e *etcdLease) bool {
	l.mu.Lock()
	late := l.remains.late
	l.mu.Unlock()
	if clientv3.LeaseID(kv.Lease) != e.id || string(kv.Value) != l.label || !late && l.label == "" {
		return false
	}
	l.mayBeLate()
	return true
}

// changeKey takes another key, under another id, and deletes the one before if the acquisition has put it.
func (l *lock) changeKey(ctx context.Context) error {
	l.d.names.retire(l.name)
	l.d.watches.forget(l) // so nobody else reads the key
	if err := l.remove(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remains.remove(l.session)
	l.remains.removed = false
	l.known, l.place = keyState{}, place{}
	l.key, l.name = l.d.names.take(l.dir)
	return nil
}

// keys reads the keys of all acquisitions of the name, up to a limit.
func (l *lock) keys(limit int64) clientv3.Op {
	return clientv3.OpGet(l.dir, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(limit))
}

func (l *lock) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// wasPut records that the key exists. keys existed at that revision, its own and those before it;
// more says that there are others, or may be.
func (l *lock) wasPut(own *mvccpb.KeyValue, revision int64, keys []entry, more bool) (driver.Grant, error) {
	l.mu.Lock()
	l.known.created, l.known.modified = own.CreateRevision, own.ModRevision
	deleted := l.place.deleted[l.key] > own.CreateRevision
	l.mu.Unlock()
	if !l.d.names.isNew(l.name, own.CreateRevision) {
		return driver.Grant{}, errNotOwn
	}
	if deleted {
		l.isGone()
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

// sawKey records what a request read of the key at a revision. The error says that the key is gone, or
// that an operator takes the lock away.
func (l *lock) sawKey(kvs []*mvccpb.KeyValue, revision int64) error {
	if len(kvs) != 1 || kvs[0].CreateRevision != l.known.created {
		l.isGone()
		return errGone
	}
	if _, breach := kit.ReadMarked(string(kvs[0].Value)); breach != nil {
		return l.isMarked(*breach)
	}
	l.update(func() {
		l.known.modified = max(l.known.modified, kvs[0].ModRevision)
		l.known.lastSeen = max(l.known.lastSeen, revision)
	})
	return nil
}

// sawAt records that the key exists at a revision, as it is known.
func (l *lock) sawAt(revision int64) {
	l.update(func() { l.known.lastSeen = max(l.known.lastSeen, revision) })
}

// isGone records that the key doesn't exist any more.
func (l *lock) isGone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remains.possible = l.remains.late
	if l.known.over == nil {
		l.known.over = errGone
	}
	l.place.changed.Set()
}

// isMarked records that an operator takes the lock away. The key exists until it is released.
func (l *lock) isMarked(breach locker.Breach) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.over = driver.Broken(breach)
	l.place.changed.Set()
	return l.known.over
}

// Extension is what [locker.As] finds.
func (l *lock) Extension() any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owner()
}

func (l *lock) owner() Owner { return Owner{key: l.key, revision: l.known.created} }

func entriesOf(kvs []*mvccpb.KeyValue) []entry {
	keys := make([]entry, len(kvs))
	for i, kv := range kvs {
		keys[i] = entry{string(kv.Key), kv.CreateRevision}
	}
	return keys
}

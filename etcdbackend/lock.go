package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// lock is one acquisition.
//
// Mutexes are taken in this order: the watches', a lock's, a session's, the driver's or the key names'.
type lock struct {
	d          *etcdDriver
	dir        string        // what the keys of all acquisitions of the name begin with
	key        string        // from the first Acquire on
	keyName    keyName       // the last part of it
	value      string        // the key's value: see valueOf
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
	// created is its create revision, which is the token; 0: not known to exist. It doesn't change any more
	// once Acquire has returned ErrQueued or a grant, and is read without the mutex from then on.
	created int64

	modified int64 // its mod revision, as far as it is known: moves and marks change it
	lastSeen int64 // a revision of the cluster at which it existed without a mark
	over     error // it is gone, or marked; nil: not as far as is known

	lease *etcdLease // the Base comes from this one
}

var errGone = fmt.Errorf("%w: its key is gone: it was deleted, or the etcd lease that it was attached to was revoked or has expired", locker.ErrLost)

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
		l.key, l.keyName = l.d.keyNames.take(l.dir)
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

func (l *lock) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// sawKey records what a request read of the key at a revision. The error says that the key is gone, or
// that an operator takes the lock away.
func (l *lock) sawKey(kvs []*mvccpb.KeyValue, revision int64) error {
	if len(kvs) != 1 || kvs[0].CreateRevision != l.known.created {
		l.noteGone()
		return errGone
	}
	if _, breach := kit.ReadMarked(string(kvs[0].Value)); breach != nil {
		return l.noteMarked(*breach)
	}
	l.update(func() {
		l.known.modified = kvs[0].ModRevision // also a smaller one: the cluster may have been set back
		l.known.lastSeen = max(l.known.lastSeen, revision)
	})
	return nil
}

// sawAt records that the key exists at a revision, as it is known.
func (l *lock) sawAt(revision int64) {
	l.update(func() { l.known.lastSeen = max(l.known.lastSeen, revision) })
}

// noteGone records that the key doesn't exist any more.
func (l *lock) noteGone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remains.possible = l.remains.late
	if l.known.over == nil {
		l.known.over = errGone
	}
	l.place.changed.Set()
}

// noteMarked records that an operator takes the lock away. The key exists until it is released.
func (l *lock) noteMarked(breach locker.Breach) error {
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

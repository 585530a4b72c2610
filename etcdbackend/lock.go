package etcdbackend

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// lock is one acquisition.
type lock struct {
	d        *etcdDriver
	dir      string // what the keys of all acquisitions of the name begin with
	key      string
	seconds  int64
	noWait   bool
	lasting  bool // it isn't renewed, so its whole TTL shall be left when it is granted
	tellLost func(cause error)

	session *session // from the first Acquire on

	mu       sync.Mutex
	asked    bool  // something may stand in the cluster, or be on its way there
	late     bool  // a copy of a request that puts the key may still be carried out
	guard    int64 // the latest revision of the guard key that a request compared
	revision int64 // the key's create revision; 0: not known to stand
	stood    int64 // a revision of the cluster at which the key stood

	gen   *generation      // the Base is that of this one
	lease clientv3.LeaseID // the etcd lease that the key hangs on, as far as it is known
	holds []*generation    // all that the key may hang on

	place    place
	released bool
}

// Acquire puts the key. If others stand before it, the key is the place in the queue, and the next call waits.
//
// A request that was sent is not given up at once when ctx ends: its outcome is worth more to the clean-up than a moment.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if l.session == nil {
		s, err := l.d.join(l.seconds)
		if err != nil {
			return driver.Grant{}, err
		}
		l.session = s
	}
	if l.stands() {
		return l.wait(ctx)
	}
	ttl := l.session.ttl()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience+grace)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(l.session.attemptLimit(), cancel) })
	defer stop()
	age := ttl * 2 / 5 // the engine would renew a lease whose Base is older than half of its TTL
	if l.lasting {
		age = ttl / 20
	}
	for {
		if ctx.Err() != nil {
			return driver.Grant{}, context.Cause(ctx)
		}
		g, b, err := l.session.take(limited, age)
		if err != nil {
			return driver.Grant{}, err
		}
		grant, err := l.put(limited, g, b)
		switch {
		case errors.Is(err, errGuarded):
		case isLeaseNotFound(err):
			l.session.retire(g)
		default:
			return grant, err
		}
	}
}

// errGuarded says that the guard key was not as expected, so that nothing was put.
var errGuarded = errors.New("the guard key has changed")

// page is how many keys are read at once of those that stand before a waiter's.
const page = 100

// put makes one Txn of it: if the key is new, and the guard key is as it is known, and nobody else is there when this
// one mustn't wait, the key is put on the etcd lease, and who stands before it is read.
func (l *lock) put(ctx context.Context, g *generation, b beat) (driver.Grant, error) {
	s := l.session
	guardKey, guard := guardOf(l.d.prefix, g.id), s.guardOf(g)
	cmps := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(l.key), "=", 0),
		clientv3.Compare(clientv3.ModRevision(guardKey), "=", guard),
	}
	if l.noWait {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(l.dir).WithPrefix(), "=", 0))
	}
	then := []clientv3.Op{clientv3.OpPut(l.key, "", clientv3.WithLease(g.id)), l.others(page + 1)}
	els := []clientv3.Op{clientv3.OpGet(l.key), clientv3.OpGet(guardKey), l.others(1)}

	l.willRead()
	if !l.noWait {
		l.d.watches.joinWatched(l)
	}
	l.asks(g, guard)
	r, err := l.d.server.txn(ctx, s.attemptLimit(), cmps, then, els)
	l.heard(r.late)
	if err != nil {
		l.settled(g) // unless it may be late
		return driver.Grant{}, err
	}
	s.prove(g, b, r.linear)
	if r.Succeeded {
		others := r.Responses[1].GetResponseRange()
		return l.wasPut(r.Header.Revision, r.Header.Revision, keysOf(others.Kvs), others.More)
	}
	own, guards, other := r.Responses[0].GetResponseRange(), r.Responses[1].GetResponseRange(), r.Responses[2].GetResponseRange()
	if len(own.Kvs) > 0 { // by a copy of the request; who stands before it is still to be read
		return l.wasPut(own.Kvs[0].CreateRevision, r.Header.Revision, nil, !l.noWait)
	}
	l.settled(g)
	switch {
	case l.noWait && other.Count > 0:
		return driver.Grant{}, locker.ErrHeld
	case len(guards.Kvs) == 0 && guard != 0: // it went with its etcd lease
		return driver.Grant{}, rpctypes.ErrLeaseNotFound
	case len(guards.Kvs) > 0:
		s.guarded(g, guards.Kvs[0].ModRevision)
	}
	return driver.Grant{}, errGuarded
}

// others reads the keys of all acquisitions of the name, up to a limit.
func (l *lock) others(limit int64) clientv3.Op {
	return clientv3.OpGet(l.dir, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(limit))
}

// asks notes that the key may come to stand on g, which was taken for that.
func (l *lock) asks(g *generation, guard int64) {
	l.mu.Lock()
	l.asked, l.guard = true, max(l.guard, guard)
	again := slices.Contains(l.holds, g)
	if !again {
		l.holds = append(l.holds, g)
	}
	l.gen, l.lease = g, g.id
	l.mu.Unlock()
	if again {
		l.session.drop(g)
	}
}

// heard notes that a copy of a request may be late.
func (l *lock) heard(late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = l.late || late
}

// settled notes that nothing stands on g, unless a copy of an earlier request is late.
func (l *lock) settled(g *generation) {
	l.mu.Lock()
	if l.late {
		l.mu.Unlock()
		return
	}
	l.asked = false
	l.holds = slices.DeleteFunc(l.holds, func(other *generation) bool { return other == g })
	l.mu.Unlock()
	l.session.drop(g)
}

// wasPut takes in that the key stands. keys stood at that time, its own and those before it; more says that there are
// others, or may be.
func (l *lock) wasPut(created, revision int64, keys []entry, more bool) (driver.Grant, error) {
	l.mu.Lock()
	l.revision, l.stood = created, revision
	won := l.place.read(l.key, keys, more)
	l.mu.Unlock()
	if won {
		return l.granted()
	}
	l.listen(revision)
	return driver.Grant{}, driver.ErrQueued
}

func (l *lock) stands() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revision != 0
}

// granted is the grant of a lock whose turn it is. Its Base is that of the etcd lease that it hangs on, which need not be
// the newest one.
//
// The key may have gone in the same revision as the last one before it. Both are told in one response, which hold waits for:
// so that is known by then. What is deleted later, the watch of a key that is held tells.
func (l *lock) granted() (driver.Grant, error) {
	l.d.watches.hold(l)
	l.mu.Lock()
	token, g, lost := locker.Token(l.revision), l.gen, l.place.lost
	l.mu.Unlock()
	if lost {
		l.tellLost(errGone) // no failure of the wait, which goes on with a new acquisition
		return driver.Grant{}, errGone
	}
	return driver.Grant{Token: token, Base: l.session.baseOf(g), TTL: g.ttl}, nil
}

// Extension is what [locker.As] finds.
func (l *lock) Extension() any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Owner{key: l.key, revision: l.revision}
}

func keysOf(kvs []*mvccpb.KeyValue) []entry {
	keys := make([]entry, len(kvs))
	for i, kv := range kvs {
		keys[i] = entry{string(kv.Key), kv.CreateRevision}
	}
	return keys
}

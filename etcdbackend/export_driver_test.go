package etcdbackend

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// NewDriver makes a driver that has asked nothing yet.
func NewDriver(client *clientv3.Client) driver.Driver { return newDriver(client, newConfig(nil)) }

// Found returns what a driver promises on the cluster that it has found.
func Found(ctx context.Context, d driver.Driver) (locker.Guarantees, error) {
	etcd := d.(*etcdDriver)
	err := errors.Join(etcd.countVoters(ctx), etcd.measure(ctx))
	return etcd.Guarantees(), err
}

// KeyOf is the key of an acquisition.
func KeyOf(l driver.Lock) string { return l.(*lock).key }

// Gone notifies a lock that its key was deleted, as a watch does.
func Gone(l driver.Lock) { l.(*lock).noteGone() }

// Deleted has the watch of a lock's name report that a key was deleted.
func Deleted(l driver.Lock, key string, revision int64) { l.(*lock).keyDeleted(key, revision) }

// HeldEvents has the watch of a held key report a deletion at one revision, and a mark of a key that was
// created at another.
func HeldEvents(l driver.Lock, deleted, created int64) {
	k := &heldKey{lock: l.(*lock)}
	k.Deleted(k.key, deleted)
	k.Put(k.key, created, []byte(kit.Marked(locker.Breach{By: "bob"}, "")))
}

// Reported has the watch of a lock's name begin, and then report that a key was deleted.
func Reported(l driver.Lock, key string, revision int64) {
	n := &nameWatch{locks: map[*lock]struct{}{l.(*lock): {}}}
	n.Begun()
	n.Deleted(key, revision)
}

// Recheck has the key of a lock read, as when its watch has begun again.
func Recheck(d driver.Driver, l driver.Lock) {
	w := d.(*etcdDriver).watches
	w.mu.Lock()
	defer w.mu.Unlock()
	k := &heldKey{lock: l.(*lock), held: &w.held, begun: true}
	k.Begun()
	w.held.recheckUnwatched()
}

// Replace has the newest etcd lease of a lock's session replaced, as under a new leader.
func Replace(ctx context.Context, l driver.Lock) error {
	s := l.(*lock).session
	old, _ := s.current()
	return s.replace(ctx, old)
}

// RenewOnRevoked renews a lock on the newest etcd lease just after the revocation of that has
// begun, and reports whether it is left for another attempt.
func RenewOnRevoked(ctx context.Context, l driver.Lock) (left bool, err error) {
	s := l.(*lock).session
	old, _ := s.current()
	if err := s.replace(ctx, old); err != nil {
		return false, err
	}
	e, k := s.current()
	s.retire(e)
	rest := s.renewOn(ctx, e, k, []lockAt{{0, l.(*lock)}}, func(_ int, _ driver.Instant, failed error) { err = failed })
	return len(rest) == 1, err
}

// Overlap has two moves of a key answered in the wrong order. It returns the etcd leases that are
// kept for the key, of "old", "first" and "second", and the one that its Base is that of.
func Overlap(late bool) (kept []string, on string) {
	s := &session{}
	names := []string{"old", "first", "second"}
	leases := make([]*etcdLease, len(names))
	for i := range leases {
		leases[i] = &etcdLease{id: clientv3.LeaseID(i + 1)}
	}
	l := &lock{session: s}
	leases[0].users++
	l.remains.beginPut(s, leases[0], 0)
	l.remains.late = late
	l.known.lease = leases[0]
	l.beginMove(leases[1])
	l.beginMove(leases[2])
	l.moved(leases[2], 0, 0)
	l.moved(leases[1], 0, 0)
	for i, e := range leases {
		if e.users > 0 {
			kept = append(kept, names[i])
		}
		if l.usesLease(e) {
			on = names[i]
		}
	}
	return kept, on
}

// Deletion is the deletion of a key, which a watch of the name reports.
type Deletion struct {
	Key      string // "me" is the own one
	Revision int64
}

// GrantedAfter reports deletions to a waiter that is on its way to take its turn. Its key was read
// at a revision, together with "a" before it. GrantedAfter returns at which revision the key was
// last seen, what is reported as lost, and the outcome.
func GrantedAfter(read int64, deletions ...Deletion) (lastSeen int64, lost, err error) {
	d := newDriver(nil, newConfig(nil))
	defer func() { _ = d.Close(context.Background()) }()
	l := &lock{d: d, key: "me", session: newSession(d, time.Second), notifyLost: func(err error) { lost = err }}
	l.known = keyState{created: read, lastSeen: read, lease: &etcdLease{ttl: time.Second}}
	l.place.begin()
	l.place.read("me", []entry{{"a", 1}, {"me", read}}, false)
	n := &nameWatch{locks: map[*lock]struct{}{l: {}}}
	for _, one := range deletions {
		n.Deleted(one.Key, one.Revision)
	}
	_, err = l.granted()
	return l.known.lastSeen, lost, err
}

// AfterANewStream returns how often keys are to be read whose watches have begun again on a new
// stream, of so many holders, and whether a waiter that is far from the head is near it then.
func AfterANewStream(holders int) (rechecked []int, near bool) {
	d := newDriver(clientv3.NewCtxClient(context.Background()), newConfig(nil)) // without endpoints
	defer func() { _ = d.Close(context.Background()) }()
	w := d.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held.recheck = func() { rechecked = append(rechecked, len(w.held.unwatched)) }
	held := make([]*heldKey, holders)
	for i := range held {
		held[i] = &heldKey{lock: &lock{}, held: &w.held}
	}
	for range 2 { // streams
		for _, k := range held {
			k.Begun()
		}
		w.held.recheckUnwatched()
	}
	w.held.recheckUnwatched()

	l := &lock{dir: "n/"}
	n := &nameWatch{w: w, dir: "n/", locks: make(map[*lock]struct{}), idle: time.NewTimer(time.Hour)}
	n.watch = w.stream.Add("n/", "", n)
	w.names["n/"] = n
	a := &aheadWatch{w: w, lock: l, since: 5}
	a.watch = w.stream.Add("n/a", "", a)
	w.ahead[l] = a
	a.Begun()
	_, early := n.locks[l]
	a.Begun()
	_, near = n.locks[l]
	return rechecked, near && !early && w.ahead[l] == nil
}

package etcdbackend

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/driver"
)

// NewDriver makes a driver that has asked nothing yet.
func NewDriver(client *clientv3.Client) driver.Driver {
	return newDriver(client, newConfig(nil), nil)
}

// KeyOf is the key of an acquisition.
func KeyOf(l driver.Lock) string { return l.(*lock).key }

// Gone tells a lock that its key was deleted, as a watch does.
func Gone(l driver.Lock) { l.(*lock).isGone() }

// Replace has the newest etcd lease of a lock's session replaced, as under a new leader.
func Replace(ctx context.Context, l driver.Lock) error {
	s := l.(*lock).session
	old, _ := s.newest()
	return s.replace(ctx, old)
}

// RenewOnEnded renews a lock on the newest etcd lease just after the revocation of that has begun, and reports whether it is
// left for another try.
func RenewOnEnded(ctx context.Context, l driver.Lock) (left bool, err error) {
	s := l.(*lock).session
	old, _ := s.newest()
	if err := s.replace(ctx, old); err != nil {
		return false, err
	}
	g, b := s.newest()
	s.retire(g)
	rest := s.renewOn(ctx, g, b, []renewal{{0, l.(*lock)}}, func(_ int, _ driver.Instant, failed error) { err = failed })
	return len(rest) == 1, err
}

// Overlap has two moves of a key answered in the wrong order. It returns the etcd leases that are kept for the key, of "old",
// "first" and "second", and the one that its Base is that of.
func Overlap(late bool) (kept []string, on string) {
	s := &session{}
	names := []string{"old", "first", "second"}
	gens := make([]*generation, len(names))
	for i := range gens {
		gens[i] = &generation{id: clientv3.LeaseID(i + 1)}
	}
	l := &lock{session: s, late: late}
	gens[0].locks++
	l.asks(gens[0], 0)
	l.moves(gens[1])
	l.moves(gens[2])
	l.moved(gens[2])
	l.moved(gens[1])
	for i, g := range gens {
		if g.locks > 0 {
			kept = append(kept, names[i])
		}
		if l.on(g) {
			on = names[i]
		}
	}
	return kept, on
}

// Deletion is that of a key, which a watch of the name tells.
type Deletion struct {
	Key      string // "me" is the own one
	Revision int64
}

// GrantedAfter has a waiter, whose key was read at a revision together with "a" before it, hear of deletions while it is on
// its way to take its turn. It returns at which revision the key is known to have stood, what the engine is told, and the
// outcome.
func GrantedAfter(read int64, deletions ...Deletion) (stood int64, told, err error) {
	d := newDriver(nil, newConfig(nil), nil)
	defer d.watches.close()
	defer d.endLife()
	l := &lock{d: d, key: "me", session: &session{d: d}, gen: &generation{ttl: time.Second}, tellLost: func(err error) { told = err }}
	l.revision, l.stood = read, read
	l.willRead()
	l.place.read("me", []entry{{"a", 1}, {"me", read}}, false)
	n := &nameWatch{locks: map[*lock]struct{}{l: {}}}
	for _, one := range deletions {
		n.deleted(one.Key, one.Revision)
	}
	_, err = l.granted()
	return l.stood, told, err
}

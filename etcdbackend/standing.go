package etcdbackend

import (
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// What renewals, reads and watches find out about a lock's key.

// on reports whether the lock's Base is that of g.
func (l *lock) on(g *generation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gen == g
}

// moves notes that the key may come to hang on g, and returns the etcd lease that it is known to hang on. It is false when g is
// over: nothing extends it, or it is revoked. A later one can't be known before g is over, so a move that is slow doesn't take
// the key back.
func (l *lock) moves(g *generation) (from clientv3.LeaseID, ok bool) {
	l.mu.Lock()
	from = l.lease
	l.mu.Unlock()
	if !l.session.hold(g) {
		return 0, false
	}
	l.mu.Lock()
	keep := !l.released && !slices.Contains(l.holds, g)
	if keep {
		l.holds = append(l.holds, g)
	}
	l.mu.Unlock()
	if !keep {
		l.session.drop(g)
	}
	return from, true
}

func (l *lock) hangsOn(lease clientv3.LeaseID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = lease
}

// moved notes that the key hangs on g. As long as a request may be late that puts it on another one, that is not let go. When
// g was let go itself, the answer is old: a later move, or Release, has been faster.
func (l *lock) moved(g *generation) {
	l.mu.Lock()
	if !slices.Contains(l.holds, g) {
		l.mu.Unlock()
		return
	}
	l.gen, l.lease = g, g.id
	var rest []*generation
	if !l.late {
		rest = slices.DeleteFunc(slices.Clone(l.holds), func(other *generation) bool { return other == g })
		l.holds = slices.DeleteFunc(l.holds, func(other *generation) bool { return other != g })
	}
	l.mu.Unlock()
	for _, other := range rest {
		l.session.drop(other)
	}
}

// checked takes in what a request read of the key at a revision, and reports whether it stands.
func (l *lock) checked(kvs []*mvccpb.KeyValue, revision int64) bool {
	if len(kvs) == 1 && kvs[0].CreateRevision == l.revision {
		l.stoodAt(revision)
		return true
	}
	l.isGone()
	return false
}

func (l *lock) stoodAt(revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stood = max(l.stood, revision)
}

// isGone takes in that the key doesn't stand any more.
func (l *lock) isGone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.place.lost = l.late, true
	l.place.tell()
}

// passed takes in that a key which stood before this one is gone.
func (l *lock) passed(key string) {
	l.d.watches.approach(l, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.place.missed(key)
}

// waits reports whether the key is a place in the queue.
func (l *lock) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.place.won
}

// sign is the key that a renewal reads for a waiter; "": none.
func (l *lock) sign() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.place.won {
		return ""
	}
	return l.place.sign()
}

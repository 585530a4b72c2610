package redlockbackend

import (
	"slices"
	"sync"

	"github.com/fencedlock/locker/driver/kit"
)

// Release returns when a majority is free for others, and Acquire when a majority has granted it.
// Requests to the other servers are still under way then: they trail behind. The next acquisition
// of this Locker asks each of those servers when the earlier requests have ended there. Without
// that, a server would often say that the lock is still held, and the next lease would be attached
// to fewer servers; and a release that overtakes the acquire would leave a tombstone.

// trailing has, by key, the acquisition that was released last, while a request of it is still
// under way.
type trailing struct {
	mu    sync.Mutex
	byKey map[string]*lock
}

func (t *trailing) get(key string) *lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

// add notes l, which is released. When it is released again, a later acquisition may have been
// released meanwhile, and that one is followed.
func (t *trailing) add(l *lock, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey == nil {
		t.byKey = make(map[string]*lock)
	}
	if t.byKey[l.key] == nil || !again {
		t.byKey[l.key] = l
	}
}

func (t *trailing) remove(l *lock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey[l.key] == l {
		delete(t.byKey, l.key)
	}
}

// follower is a request that is sent to a server when the requests of the acquisition before have ended
// there.
type follower struct {
	ballot *ballot // of the next acquisition
	server int
}

// run asks server i, unless the attempt is over by now.
func (f follower) run(i int) {
	if f.ballot.a.isOver() {
		f.ballot.answered(i, reply{err: kit.ErrNotSent})
		return
	}
	f.ballot.run(i)
}

// trail is called when Release returns. Requests may still be under way.
func (l *lock) trail() {
	l.mu.Lock()
	pending := l.pending()
	l.mu.Unlock()
	if pending == 0 { // the last has ended just now
		l.d.trailing.remove(l)
	}
}

// pending returns the servers to which a request is still under way. l.mu is held.
func (l *lock) pending() (pending servers) {
	for _, a := range l.attempts {
		pending |= a.pending()
	}
	return pending
}

// follow arranges that a ballot of the next acquisition asks server i when the requests of this one
// have ended there. It returns false if they have ended already.
func (l *lock) follow(b *ballot, i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.pending().has(i) {
		return false
	}
	l.followers = append(l.followers, follower{b, i})
	return true
}

// ended is called when a request to server i has ended, and what follows from its answer has begun.
func (l *lock) ended(i int) {
	l.mu.Lock()
	if !l.released {
		l.mu.Unlock()
		return
	}
	pending := l.pending()
	for at := 0; at < len(l.followers); {
		if f := l.followers[at]; f.server != i || pending.has(i) {
			at++
			continue
		}
		l.d.workers.run(l.followers[at], i)
		l.followers = slices.Delete(l.followers, at, at+1)
	}
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	if pending == 0 {
		l.d.trailing.remove(l)
	}
}

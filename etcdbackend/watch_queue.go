package etcdbackend

import (
	"sync"
	"time"

	"github.com/fencedlock/locker/internal/etcdconn"
)

// watches is what a Locker watches: the names for which it waits, and the keys that it holds.
//
// A watch of a name always starts at the current revision. What was deleted before is read once the
// watch is confirmed.
type watches struct {
	stream *etcdconn.Watcher

	mu     sync.Mutex
	names  map[string]*nameWatch
	ahead  map[*lock]*aheadWatch
	held   heldWatches
	closed bool
}

// newWatches makes the watches of a Locker. recheck begins to read the keys that may have been
// deleted while they were not watched.
func newWatches(c *etcdconn.Cluster, recheck func()) *watches {
	w := &watches{
		names: make(map[string]*nameWatch),
		ahead: make(map[*lock]*aheadWatch),
		held: heldWatches{
			watched:   make(map[*lock]*etcdconn.Watch),
			unwatched: make(map[*lock]struct{}),
			recheck:   recheck,
		},
	}
	w.stream = c.NewWatcher(&w.mu, w.held.recheckUnwatched)
	return w
}

func (w *watches) close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		w.held.stop()
		for _, n := range w.names {
			n.idle.Stop()
		}
	}
	w.mu.Unlock()
	w.stream.Close()
}

// nameWatch watches all keys of a name, for the locks that wait for it near the head of its queue.
type nameWatch struct {
	w     *watches
	dir   string
	watch *etcdconn.Watch
	locks map[*lock]struct{}
	idle  *time.Timer // ends the watch; runs while no lock waits
}

// idleLimit is how long a name is watched after its last waiter: the next waiter may come soon, and
// then needs one request less.
const idleLimit = time.Second

func (n *nameWatch) Since() int64 { return 0 }

func (n *nameWatch) Begun() {
	for l := range n.locks {
		l.watchBegun()
	}
}

func (n *nameWatch) Deleted(key string, revision int64) {
	for l := range n.locks {
		l.keyDeleted(key, revision)
	}
}

// joinWatched notifies a lock that is about to put its key of deletes, if the name is watched
// already.
func (w *watches) joinWatched(l *lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.names[l.dir]; n != nil && n.watch.Up() {
		n.idle.Stop()
		n.locks[l] = struct{}{}
	}
}

// joinNear notifies a lock near the head of its queue of all deletes of the name. The lock reads
// the keys before its own once these are watched, if it had not joined before.
func (w *watches) joinNear(l *lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.join(l)
}

func (w *watches) join(l *lock) {
	n := w.names[l.dir]
	if n == nil {
		n = &nameWatch{w: w, dir: l.dir, locks: make(map[*lock]struct{})}
		n.idle = time.AfterFunc(idleLimit, n.endIdle)
		n.watch = w.stream.Add(l.dir, endOf(l.dir), n)
		w.names[l.dir] = n
	}
	if _, joined := n.locks[l]; joined {
		return
	}
	n.idle.Stop()
	n.locks[l] = struct{}{}
	if n.watch.Up() {
		l.watchBegun()
	}
}

// joinFar notifies a lock far from the head of its queue of the end of one key, since a revision.
// The lock then joins those that are near.
func (w *watches) joinFar(l *lock, key string, revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveQueue(l, 0)
	a := &aheadWatch{w: w, lock: l, since: revision}
	a.watch = w.stream.Add(key, "", a)
	w.ahead[l] = a
}

// leaveQueue is the opposite of the joins. When the last lock leaves, the name is watched for some
// time longer.
func (w *watches) leaveQueue(l *lock, longer time.Duration) {
	if a := w.ahead[l]; a != nil {
		a.end()
	}
	n := w.names[l.dir]
	if n == nil {
		return
	}
	if _, joined := n.locks[l]; !joined && longer > 0 {
		return
	}
	delete(n.locks, l)
	switch {
	case len(n.locks) > 0 || w.closed:
	case longer == 0:
		n.end()
	default:
		n.idle.Reset(longer)
	}
}

// endIdle ends the watch of a name for which no lock has waited for a while.
func (n *nameWatch) endIdle() {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if len(n.locks) == 0 && n.w.names[n.dir] == n {
		n.end()
	}
}

func (n *nameWatch) end() {
	n.idle.Stop()
	delete(n.w.names, n.dir)
	n.w.stream.Remove(n.watch)
}

// aheadWatch watches one key ahead of a lock that is far from the head of its queue.
type aheadWatch struct {
	w     *watches
	watch *etcdconn.Watch
	lock  *lock
	since int64
	begun bool
}

func (a *aheadWatch) Since() int64 { return a.since }

func (a *aheadWatch) Begun() {
	if a.begun { // again, and deletes may have been missed
		a.approach()
	}
	a.begun, a.since = true, 0
}

func (a *aheadWatch) Deleted(string, int64) { a.approach() }

// approach makes the lock join those near the head.
func (a *aheadWatch) approach() {
	a.end()
	a.w.join(a.lock)
}

// approach makes a lock that watches a key join those near the head, because the key is gone.
func (w *watches) approach(l *lock, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.ahead[l]; a != nil && a.watch.Key() == key {
		a.approach()
	}
}

func (a *aheadWatch) end() {
	delete(a.w.ahead, a.lock)
	a.w.stream.Remove(a.watch)
}

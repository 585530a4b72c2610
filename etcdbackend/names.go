package etcdbackend

import "time"

// nameWatch watches all keys of a name, for those who wait for it here.
type nameWatch struct {
	w     *watches
	dir   string
	watch *watch
	locks map[*lock]struct{}
	idle  *time.Timer // ends it, while nobody waits
}

// idleAfter is how long a name is watched after its last waiter: the next may come soon, and then needs one request less.
const idleAfter = time.Second

func (n *nameWatch) since() int64 { return 0 }

func (n *nameWatch) begun() {
	for l := range n.locks {
		l.mustLook()
	}
}

func (n *nameWatch) deleted(key string, revision int64) {
	for l := range n.locks {
		l.deletedBefore(key, revision)
	}
}

// joinWatched lets a lock that is about to ask hear of the keys of its name, if these are watched already.
func (w *watches) joinWatched(l *lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.names[l.dir]; n != nil && n.watch.up {
		n.idle.Stop()
		n.locks[l] = struct{}{}
	}
}

// join lets a lock that waits hear of the keys of its name, unless it does. It has to look once they are watched.
func (w *watches) join(l *lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.joinNear(l)
}

func (w *watches) joinNear(l *lock) {
	n := w.names[l.dir]
	if n == nil {
		n = &nameWatch{w: w, dir: l.dir, locks: make(map[*lock]struct{})}
		n.idle = time.AfterFunc(idleAfter, n.end)
		n.watch = w.add(l.dir, endOf(l.dir), n)
		w.names[l.dir] = n
	}
	if _, joined := n.locks[l]; joined {
		return
	}
	n.idle.Stop()
	n.locks[l] = struct{}{}
	if n.watch.up {
		l.mustLook()
	}
}

// joinFar lets a lock hear of one key only, since a revision, and then join those who are near.
func (w *watches) joinFar(l *lock, key string, revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.part(l, 0)
	f := &farWatch{w: w, lock: l, from: revision}
	f.watch = w.add(key, "", f)
	w.far[l] = f
}

// part is the opposite. A name for which nobody waits any more is watched for some time still.
func (w *watches) part(l *lock, still time.Duration) {
	if f := w.far[l]; f != nil {
		f.end()
	}
	n := w.names[l.dir]
	if n == nil {
		return
	}
	if _, joined := n.locks[l]; !joined && still > 0 {
		return
	}
	delete(n.locks, l)
	switch {
	case len(n.locks) > 0 || w.closed:
	case still == 0:
		n.stop()
	default:
		n.idle.Reset(still)
	}
}

// end ends the watch of a name for which nobody has waited for a while.
func (n *nameWatch) end() {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if len(n.locks) == 0 && n.w.names[n.dir] == n {
		n.stop()
	}
}

func (n *nameWatch) stop() {
	n.idle.Stop()
	delete(n.w.names, n.dir)
	n.w.remove(n.watch)
}

// farWatch watches one key for a lock that is far from the head of its queue.
type farWatch struct {
	w     *watches
	watch *watch
	lock  *lock
	from  int64
	began bool
}

func (f *farWatch) since() int64 { return f.from }

func (f *farWatch) begun() {
	if f.began { // anew, and some may be missed
		f.approach()
	}
	f.began, f.from = true, 0
}

func (f *farWatch) deleted(string, int64) { f.approach() }

func (f *farWatch) approach() {
	f.end()
	f.w.joinNear(f.lock)
}

// approach lets a lock that watches a key join those who are near, because the key is gone.
func (w *watches) approach(l *lock, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.far[l]; f != nil && f.watch.key == key {
		f.approach()
	}
}

func (f *farWatch) end() {
	delete(f.w.far, f.lock)
	f.w.remove(f.watch)
}

// willRead is called before a request that reads who stands before the key.
func (l *lock) willRead() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.place.begin()
}

// mustLook is called when the keys of the name are watched from now on.
func (l *lock) mustLook() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.place.look = true
	l.place.tell()
}

// deletedBefore takes in that a key of the name is gone. The keys of a name are told in order: so the own one stood then, unless
// it went before, or goes with the same revision and is told next (see granted).
func (l *lock) deletedBefore(key string, revision int64) {
	if key == l.key {
		l.isGone()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.place.lost {
		l.stood = max(l.stood, revision)
	}
	l.place.ended(key)
}

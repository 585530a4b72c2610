package etcdbackend

import (
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// heldWatches watches the keys of locks that are held, so that a holder learns at once that its key
// was deleted, or marked by an operator. A lock that is held for a moment only isn't worth that, so
// each waits a little. Its watch begins at the revision at which the key was seen last: nothing is
// missed.
type heldWatches struct {
	watched map[*lock]*etcdconn.Watch // all that are held; nil: not watched yet
	newer   []*lock                   // granted since the timer ran; they may have ended since
	older   []*lock                   // granted before that
	timer   *time.Timer               // runs while there are newer or older ones

	unwatched  map[*lock]struct{} // their keys may have been deleted while nothing was watched
	recheck    func()             // begins to read these keys
	rechecking bool               // they are being read
}

// watchAfter is for how long a lock is held before its key is watched, at least; at most it is
// twice that.
const watchAfter = 100 * time.Millisecond

// heldKey is the subject of such a watch.
type heldKey struct {
	*lock
	held  *heldWatches
	begun bool
}

func (k *heldKey) Since() int64 {
	if k.begun {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known.lastSeen
}

func (k *heldKey) Begun() {
	if k.begun {
		k.held.unwatched[k.lock] = struct{}{}
	}
	k.begun = true
}

// Deleted ignores the end of an earlier key with the same name. A watch that begins again at a member which
// is behind the others reports what that one still has to execute.
func (k *heldKey) Deleted(_ string, revision int64) {
	if revision > k.createRevision() {
		k.lose(nil)
	}
}

// Put is called for a mark, and for a move of the key to another etcd lease, which keeps its value. Puts of
// an earlier key with the same name are ignored as well.
func (k *heldKey) Put(_ string, created int64, value []byte) {
	if _, breach := kit.ReadMarked(string(value)); breach != nil && created == k.createRevision() {
		k.lose(breach)
	}
}

func (l *lock) createRevision() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.created
}

// lose ends the lease of a lock whose key is gone, or marked with a breach.
func (l *lock) lose(breach *locker.Breach) {
	if breach != nil {
		l.notifyLost(l.noteMarked(*breach))
		return
	}
	l.noteGone()
	l.notifyLost(errGone)
}

// hold is called when a lock is granted.
func (w *watches) hold(l *lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveQueue(l, idleLimit)
	h := &w.held
	if _, known := h.watched[l]; known || w.closed {
		return
	}
	h.watched[l] = nil
	if len(h.newer)+len(h.older) == 0 {
		if h.timer == nil {
			h.timer = time.AfterFunc(watchAfter, w.watchHeld)
		} else {
			h.timer.Reset(watchAfter)
		}
	}
	h.newer = append(h.newer, l)
}

// watchHeld begins to watch the keys that have been held for long enough.
func (w *watches) watchHeld() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	h := &w.held
	for _, l := range h.older {
		if one, still := h.watched[l]; still && one == nil {
			h.watched[l] = w.stream.Add(l.key, "", &heldKey{lock: l, held: h})
		}
	}
	h.older, h.newer = h.newer, nil
	if len(h.older) > 0 {
		h.timer.Reset(watchAfter)
	}
}

// forget is called when a lock is over: nothing is watched for it any more.
func (w *watches) forget(l *lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveQueue(l, idleLimit)
	if one := w.held.watched[l]; one != nil {
		w.stream.Remove(one)
	}
	delete(w.held.watched, l)
	delete(w.held.unwatched, l)
}

func (h *heldWatches) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

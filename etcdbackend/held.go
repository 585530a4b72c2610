package etcdbackend

import "time"

// held is the locks that are held. Their keys are watched, so that a holder learns at once when its key was deleted. A
// lock that is held for a moment only isn't worth that, so each waits a little; its watch begins at the revision at
// which the key was seen last, and nothing is missed.
type held struct {
	locks map[*lock]*watch // nil: not watched yet
	fresh []*lock          // granted since the timer ran; they may have ended since
	ripe  []*lock          // granted before that
	timer *time.Timer      // runs while there are some of the two

	doubted []*lock // whose keys may have been deleted while nothing was watched
	doubt   func([]*lock)
}

// watchAfter is for how long a lock is held before its key is watched, at least; at most it is twice that.
const watchAfter = 100 * time.Millisecond

// heldKey is the subject of such a watch.
type heldKey struct {
	*lock
	w     *watches
	began bool
}

func (k *heldKey) since() int64 {
	if k.began {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stood
}

func (k *heldKey) begun() {
	if k.began {
		k.w.held.doubted = append(k.w.held.doubted, k.lock)
	}
	k.began = true
}

func (k *heldKey) deleted(string, int64) { k.lose() }

// lose ends the lease of a lock whose key is gone.
func (l *lock) lose() {
	l.isGone()
	l.tellLost(errGone)
}

// confirm has the keys read whose watches have begun anew.
func (h *held) confirm() {
	if len(h.doubted) > 0 {
		h.doubt(h.doubted)
		h.doubted = nil
	}
}

// hold is called when a lock is granted.
func (w *watches) hold(l *lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.part(l, idleAfter)
	h := &w.held
	if _, known := h.locks[l]; known || w.closed {
		return
	}
	if h.locks == nil {
		h.locks = make(map[*lock]*watch)
	}
	h.locks[l] = nil
	if len(h.fresh)+len(h.ripe) == 0 {
		if h.timer == nil {
			h.timer = time.AfterFunc(watchAfter, w.watchHeld)
		} else {
			h.timer.Reset(watchAfter)
		}
	}
	h.fresh = append(h.fresh, l)
}

// watchHeld begins to watch the keys that have been held for long enough.
func (w *watches) watchHeld() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	h := &w.held
	for _, l := range h.ripe {
		if one, still := h.locks[l]; still && one == nil {
			h.locks[l] = w.add(l.key, "", &heldKey{lock: l, w: w})
		}
	}
	h.ripe, h.fresh = h.fresh, nil
	if len(h.ripe) > 0 {
		h.timer.Reset(watchAfter)
	}
}

// forget is called when a lock is over: nothing is watched for it any more.
func (w *watches) forget(l *lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.part(l, idleAfter)
	if one := w.held.locks[l]; one != nil {
		w.remove(one)
	}
	delete(w.held.locks, l)
}

func (h *held) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

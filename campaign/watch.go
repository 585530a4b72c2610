package main

import (
	"sync"
	"time"
)

// lookInterval is the time between two looks of a holder at its lock.
const lookInterval = 2 * time.Millisecond

// watch looks at a lock for as long as a critical section lasts, and remembers what it saw.
//
// Held is taken before a look and Lost after it. So a holder that is said to have believed did
// believe at that moment, and one that is said to know did know.
type watch struct {
	*holding
	stop, stopped chan struct{}

	mu   sync.Mutex
	s    section
	last moment // of the looks
}

func startWatch(h *holding, s section) *watch {
	w := &watch{holding: h, s: s, stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(w.stopped)
		tick := time.NewTicker(lookInterval)
		defer tick.Stop()
		for {
			w.look()
			select {
			case <-tick.C:
			case <-w.stop:
				return
			}
		}
	}()
	return w
}

// look reports whether the holder believes that it has the lock. Without means to know, it does.
func (w *watch) look() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := now()
	if w.last != 0 {
		w.s.Gap = max(w.s.Gap, before.sub(w.last))
	}
	w.last = before
	held := w.held == nil || w.held()
	switch {
	case w.s.Lost != 0:
		w.s.Returned = w.s.Returned || held
		return held
	case held:
		w.s.Held = before
	default:
		w.s.Lost = now()
		if w.cause != nil {
			w.s.Cause = w.cause().Error()
		}
	}
	if w.deadline != nil {
		w.s.Deadline = momentOf(w.deadline())
	}
	return held
}

// end ends the watch just before the release.
func (w *watch) end() section {
	close(w.stop)
	<-w.stopped
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.s.Released = now()
	return w.s
}

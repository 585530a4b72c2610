package membackend

import (
	"maps"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// Expiry is noticed in two ways. A request sees what has expired of the name that it is about,
// whatever any timer does; exclusion rests on that. A timer for each name hands the lock over when
// nobody asks, and removes what else has expired, so that nothing stays forever.

func (s *Server) entry(a *acquisition) *entry {
	key := keyOf(a.name, a.slot)
	e := s.locks[key]
	if e == nil {
		e = &entry{key: key, name: a.name, slot: a.slot}
		if s.locks == nil {
			s.locks = make(map[string]*entry)
		}
		s.locks[key] = e
	}
	return e
}

// keyOf is a lock's name, or for a slot what no name can be, because names have no control
// characters.
func keyOf(name string, slot int) string {
	if slot == 0 {
		return name
	}
	return name + "\x00" + kit.SlotText(slot)
}

// tidy deletes the entry of a name when it holds nothing any more.
func (s *Server) tidy(e *entry) {
	if e.holder != nil || len(e.queue) > 0 || len(e.tombstones) > 0 {
		return
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	delete(s.locks, e.key)
}

// watch makes sure that the entry is swept at the given moment at the latest. Renewals only make
// moments later, and don't touch the timer: when it fires too early, it finds nothing to do and is
// set again.
func (s *Server) watch(e *entry, at, now driver.Instant) {
	if e.timer == nil {
		e.timer = time.AfterFunc(at.Sub(now), func() { s.sweepDue(e) })
	} else if at < e.wake {
		e.timer.Reset(at.Sub(now))
	} else {
		return
	}
	e.wake = at
}

func (s *Server) sweepDue(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused || s.locks[e.key] != e {
		return // Resume sweeps all
	}
	s.sweep(e, driver.Now())
}

// sweep does what is due, and sets the timer for what is next.
func (s *Server) sweep(e *entry, now driver.Instant) {
	s.advance(e, now)
	e.removeWaiters(func(w *waiter) bool { return now >= w.expires })
	maps.DeleteFunc(e.tombstones, func(_ string, t tombstone) bool { return now >= t.until })

	next := driver.Never
	if e.holder != nil {
		next = e.expires
	}
	for _, w := range e.queue {
		next = min(next, w.expires)
	}
	for _, t := range e.tombstones {
		next = min(next, t.until)
	}
	e.wake = driver.Never
	s.watch(e, next, now)
	s.tidy(e)
}

// sweepAll sweeps everything after a time in which the service did nothing.
func (s *Server) sweepAll() {
	now := driver.Now()
	for _, e := range s.locks {
		s.sweep(e, now)
	}
}

package membackend

import (
	"maps"
	"time"

	"github.com/fencedlock/locker/driver"
)

// What expires is found out in two ways. A request sees what has expired in the name that it is about, whatever any
// timer does; that is what exclusion rests on. A timer for each name hands the lock over when nobody asks, and removes
// the rest, so that what is dead doesn't stay for ever.

func (s *Server) entry(name string) *entry {
	e := s.locks[name]
	if e == nil {
		e = &entry{name: name}
		if s.locks == nil {
			s.locks = make(map[string]*entry)
		}
		s.locks[name] = e
	}
	return e
}

// tidy forgets a name about which there is nothing to know any more.
func (s *Server) tidy(e *entry) {
	if e.holder != nil || len(e.queue) > 0 || len(e.tombs) > 0 {
		return
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	delete(s.locks, e.name)
}

// watch has the entry swept at the given moment at the latest. Renewals only move moments away, and don't touch the
// timer: it finds nothing to do when it fires, and is set anew.
func (s *Server) watch(e *entry, at, now driver.Instant) {
	if e.timer == nil {
		e.timer = time.AfterFunc(at.Sub(now), func() { s.fallDue(e) })
	} else if at < e.wake {
		e.timer.Reset(at.Sub(now))
	} else {
		return
	}
	e.wake = at
}

func (s *Server) fallDue(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused || s.locks[e.name] != e {
		return // Resume sweeps all
	}
	s.sweep(e, driver.Now())
}

// sweep does what is due, and sets the timer for what is next.
func (s *Server) sweep(e *entry, now driver.Instant) {
	s.advance(e, now)
	e.leave(func(w *waiter) bool { return now >= w.expires })
	maps.DeleteFunc(e.tombs, func(_ string, until driver.Instant) bool { return now >= until })

	next := driver.Never
	if e.holder != nil {
		next = e.expires
	}
	for _, w := range e.queue {
		next = min(next, w.expires)
	}
	for _, until := range e.tombs {
		next = min(next, until)
	}
	e.wake = driver.Never
	s.watch(e, next, now)
	s.tidy(e)
}

// sweepAll is for a service that did nothing for a while.
func (s *Server) sweepAll() {
	now := driver.Now()
	for _, e := range s.locks {
		s.sweep(e, now)
	}
}

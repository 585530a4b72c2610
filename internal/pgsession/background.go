package pgsession

import (
	"errors"
	"os"
	"time"
)

// readInBackground is what the background goroutine of a session does until the connection has
// ended.
func (s *Session) readInBackground() {
	tick := time.NewTimer(quiet)
	defer tick.Stop()
	var seen uint64 // calls that had begun at the last look
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.cause == nil {
		if s.reader == nil && (s.begun == seen || s.head != nil || !s.callersRead) {
			s.reader = &s.background
		}
		if s.reader == &s.background {
			s.readForAll()
		}
		seen = s.begun
		s.mu.Unlock()
		tick.Reset(quiet)
		select {
		case <-s.assigned:
		case <-tick.C:
		case <-s.down:
		}
		s.mu.Lock()
	}
}

// readForAll reads until the role is for callers again, or the connection has ended. It is called,
// and returns, with the mutex locked.
func (s *Session) readForAll() {
	s.setReadDeadline(time.Time{})
	for s.cause == nil {
		s.mu.Unlock()
		err := s.in.fill(s.net)
		s.mu.Lock()
		answered := s.answers
		switch {
		case !s.takeIn(err):
			return
		case errors.Is(err, os.ErrDeadlineExceeded): // an earlier reader has set it
			s.setReadDeadline(time.Time{})
		case !s.callersRead || s.answers == answered:
		case s.head == nil, s.underWay <= crowd && s.head.isParked:
			s.leaveRole(&s.background)
			return
		}
	}
}

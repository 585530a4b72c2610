package membackend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencedlock/locker/driver"
)

// Expire ends the lease on a lock now, as if an operator had removed the lock: its holder is
// notified, and the first waiter gets the lock. It returns false when nobody holds the lock, or
// when the service is paused and so does nothing. A permit of that name stays; see ExpireSlot.
func (s *Server) Expire(name string) bool { return s.ExpireSlot(name, 0) }

// ExpireSlot is Expire for the permit on a slot ([locker.Slot] of its lease), or for the line
// ([locker.LineSlot]). Slot 0 is the lock of the name.
func (s *Server) ExpireSlot(name string, slot int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.locks[keyOf(name, slot)]
	if e == nil || s.paused {
		return false
	}
	defer s.tidy(e)
	now := driver.Now()
	s.advance(e, now)
	if e.holder == nil {
		return false
	}
	s.revoke(e, errRevoked)
	s.advance(e, now)
	return true
}

// RefuseRenewals makes renewals fail with err, while the TTLs go on; nil ends it. Everything else
// goes on. err must not match an error of package locker, which would say something else.
func (s *Server) RefuseRenewals(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewErr = err
}

// Fail makes every request fail with err before it is executed; nil ends it. Locks that are held
// stay held, and expire. err must not match an error of package locker, which would say something
// else.
func (s *Server) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requestErr = err
}

// Pause stops the service, as SIGSTOP does: requests that arrive wait, and nothing is pushed. Its
// clock goes on.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = true
}

// Resume ends Pause. First everything that has expired is removed. Then the requests that have
// arrived are executed in their order, even those whose callers have given up.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.paused {
		return
	}
	s.paused = false
	s.sweepAll()
	for _, r := range s.backlog {
		s.serve(r)
	}
	s.backlog = nil
}

// Restart ends the service and starts it again with its data: locks and tokens stay. Connections
// break, so requests under way fail and places in queues are lost. A paused service runs
// afterwards.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restart()
	s.sweepAll()
}

// Wipe is Restart with the loss of all data. Tokens go on rising with the clock.
func (s *Server) Wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restart()
	for _, e := range s.locks {
		e.timer.Stop()
	}
	s.locks = nil
	// The clock of a service that has restarted is past all its tokens. This one restarts at once,
	// and in a bubble of testing/synctest its clock doesn't move while it makes tokens: then it
	// behaves as if the clock had moved.
	if s.last < clock() {
		s.last = 0
	}
}

func (s *Server) restart() {
	s.paused, s.backlog = false, nil
	for c := range s.conns {
		s.drop(c)
		if link := c.client.link; link.carriesReplies() { // otherwise the client notices with its next request
			link.reset(c)
		}
	}
}

// Requests is the number of requests executed so far, for tests that count them. A renewal of many
// locks is one.
func (s *Server) Requests() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Residue describes the locks that are held or waited for; it is empty when there are none. What
// only stops a late request, and expires, is no residue.
func (s *Server) Residue() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for name, e := range s.locks {
		if e.holder != nil {
			list = append(list, fmt.Sprintf("%q is held, and %d wait", name, len(e.queue)))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

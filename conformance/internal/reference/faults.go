package reference

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker/driver"
)

// Pause stops the service, as SIGSTOP does: what arrives waits, and nothing is sent. Its clock goes
// on.
func (s *Service) Pause() { s.locked(func() { s.paused = true }) }

// Resume ends Pause. First everything that has expired ends. Then the requests that have arrived
// are executed in their order.
func (s *Service) Resume() {
	s.locked(func() {
		s.paused = false
		s.sweepAll()
		arrived := s.backlog
		s.backlog = nil
		for _, d := range arrived {
			s.receive(d)
		}
	})
}

// Down makes each request fail at once; Up ends it.
func (s *Service) Down() { s.locked(func() { s.down = true }) }

// Up ends Down.
func (s *Service) Up() { s.locked(func() { s.down = false }) }

// Restart ends the service and starts it again with its data. All connections break.
func (s *Service) Restart() { s.locked(func() { s.steps.restart(s) }) }

func (s *Service) restart() {
	s.disconnect()
	s.sweepAll()
}

// Wipe is Restart with the loss of all data. By its own clock the service is back a second
// later, and nobody has to wait for that.
func (s *Service) Wipe() { s.locked(func() { s.steps.wipe(s) }) }

func (s *Service) wipe() {
	s.disconnect()
	for _, r := range s.data.locks {
		if r.timer != nil {
			r.timer.Stop()
		}
	}
	ahead := s.data.ahead + time.Second
	s.data = newData()
	s.data.ahead = ahead
}

// disconnect breaks all connections. A client whose network is cut notices it with its next
// request.
func (s *Service) disconnect() {
	s.paused, s.backlog = false, nil
	for c := range s.conns {
		s.steps.hangUp(s, c)
		if c.client.link.open() {
			c.client.reset(c)
		}
	}
}

// Remove takes the lock away from its holder, as an operator does. It reports whether somebody had
// it.
func (s *Service) Remove(key string) (found bool) {
	s.locked(func() {
		now := driver.Now()
		r := s.open(key)
		defer s.settle(r, now)
		s.steps.advance(s, r, now)
		if found = r.holder != nil; found {
			s.steps.remove(s, r, now)
		}
	})
	return found
}

// remove hands the lock over, as every end of a lease does.
func (s *Service) remove(r *record, now driver.Instant) {
	s.steps.revoke(s, r, errRevoked, now)
	s.steps.advance(s, r, now)
}

// Requests is the number of requests so far. A renewal of many locks is one.
func (s *Service) Requests() (n int64) {
	s.locked(func() { n = s.requests })
	return n
}

// Waiters is the number of live places in the queue of a key.
func (s *Service) Waiters(key string) (n int) {
	s.locked(func() {
		if r := s.data.locks[key]; r != nil {
			n = len(live(r.queue, driver.Now()))
		}
	})
	return n
}

// Residue describes the locks that are held and the places in queues; "": there are none.
func (s *Service) Residue() string {
	var left []string
	s.locked(func() {
		now := driver.Now()
		for key, r := range s.data.locks {
			held := r.holder != nil && now < r.holder.expires
			if n := len(live(r.queue, now)); held || n > 0 {
				left = append(left, fmt.Sprintf("%q (held: %v, %d wait)", key, held, n))
			}
		}
	})
	slices.Sort(left)
	return strings.Join(left, ", ")
}

func live(queue []*entry, now driver.Instant) (living []*entry) {
	for _, w := range queue {
		if now < w.expires {
			living = append(living, w)
		}
	}
	return living
}

// sweepAll looks at everything after a time in which the service did nothing.
func (s *Service) sweepAll() {
	now := driver.Now()
	for _, r := range s.data.locks {
		s.sweep(r, now)
	}
}

func (s *Service) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

package conformance_test

import (
	"maps"
	"time"

	"github.com/fencedlock/locker"
)

// What the harness does to the toy service.

func (s *toy) pause() { s.locked(func() { s.paused = true }) }

func (s *toy) resume() {
	s.locked(func() {
		s.paused = false
		for _, request := range s.backlog {
			request()
		}
		s.backlog = nil
	})
}

// restart breaks all connections and keeps the data.
func (s *toy) restart() {
	s.locked(func() {
		for _, link := range s.links {
			link.Sever()
		}
		for _, k := range s.keys {
			if s.flaws.marksForgot {
				k.breach = nil
			}
		}
	})
}

// wipe deletes all data. By its own clock the service is back a second later, and nobody has to
// wait.
func (s *toy) wipe() {
	s.restart()
	s.locked(func() {
		s.keys, s.last, s.counters = make(map[string]*key), 0, make(map[string]locker.Token)
		s.ahead += time.Second
	})
}

// remove ends the connection of the holder where leases are attached to connections.
func (s *toy) remove(name string) {
	name = s.slotName(locker.Request{Name: name})
	s.locked(func() {
		if k := s.keys[name]; k != nil && s.flaws.noTTL {
			maps.DeleteFunc(s.keys, func(_ string, other *key) bool { return other.link == k.link })
		}
		delete(s.keys, name)
	})
}

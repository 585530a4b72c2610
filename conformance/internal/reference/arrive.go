package reference

import "github.com/fencedlock/locker/driver"

// arrive receives a request from the network.
func (s *Service) arrive(d delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused {
		s.backlog = append(s.backlog, d)
		return
	}
	s.receive(d)
}

// receive executes a request and replies.
func (s *Service) receive(d delivery) {
	if d.on.dead && !d.copied { // as a machine answers something for a connection that it doesn't know
		d.on.client.link.reply(d.passage, func() { d.on.client.reset(d.on) })
		return
	}
	r := reply{err: errRefused}
	if !s.down {
		if !d.copied {
			s.conns[d.on] = struct{}{}
			s.steps.subscribe(s, d.on, d.session)
		}
		s.requests++
		r = s.steps.serve(s, d.on, d.request, driver.Now())
	}
	d.on.client.link.reply(d.passage, func() { d.on.client.answer(d.number, r) })
}

// subscribe sends the notices for a client to the connection on which it asks.
func (s *Service) subscribe(on *conn, session string) { s.sessions[session] = on }

// hangUp notes that a connection has ended. Locks and places aren't attached to it.
func (s *Service) hangUp(c *conn) {
	c.dead = true
	delete(s.conns, c)
	if s.sessions[c.client.session] == c {
		delete(s.sessions, c.client.session)
	}
}

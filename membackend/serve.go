package membackend

import "github.com/fencedlock/locker/driver"

// arrive takes in a request from the network.
func (s *Server) arrive(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.conn.dead {
		if s.conns == nil {
			s.conns = make(map[*conn]struct{})
		}
		s.conns[r.conn] = struct{}{}
	}
	if s.paused {
		s.backlog = append(s.backlog, r)
		return
	}
	s.serve(r)
}

// serve carries out a request, unless a fault forbids it, and replies.
func (s *Server) serve(r *request) {
	if r.conn.dead {
		// As a machine that gets something for a connection it knows nothing of.
		r.conn.client.link.reset(r.conn)
		return
	}
	if r.goodbye {
		s.drop(r.conn)
		return
	}
	err := s.failing
	if err == nil && r.renewal {
		err = s.refusing
	}
	if err == nil {
		s.requests++
		r.run(driver.Now())
	}
	r.reply(err)
}

// hangUp is drop for those outside.
func (s *Server) hangUp(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c)
}

// drop forgets a connection and the places in queues that hang on it. Locks don't hang on connections.
func (s *Server) drop(c *conn) {
	c.dead = true
	delete(s.conns, c)
	for _, e := range s.locks {
		e.leave(func(w *waiter) bool { return w.conn == c })
	}
}

package membackend

import "github.com/fencedlock/locker/driver"

// arrive receives a request from the network.
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

// serve executes a request, unless a fault forbids it, and replies.
func (s *Server) serve(r *request) {
	if r.conn.dead {
		// As a machine does that receives something for a connection it doesn't know.
		if link := r.conn.client.link; link.carriesReplies() {
			link.reset(r.conn)
		}
		return
	}
	if r.goodbye {
		s.drop(r.conn)
		return
	}
	err := s.requestErr
	if err == nil && r.renewal {
		err = s.renewErr
	}
	if err == nil {
		s.requests++
		r.run(driver.Now())
	}
	r.reply(err)
}

// breakConn is drop for callers without the mutex.
func (s *Server) breakConn(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c)
}

// drop deletes a connection and the places in queues that are attached to it. Locks aren't attached
// to connections.
func (s *Server) drop(c *conn) {
	c.dead = true
	delete(s.conns, c)
	for _, e := range s.locks {
		e.removeWaiters(func(w *waiter) bool { return w.conn == c })
	}
}

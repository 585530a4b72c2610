package zkconn

import "github.com/fencedlock/locker/driver"

// When is a session over, if the servers don't say that it is?
//
// The servers may receive what a client sends while the client receives nothing. Then its requests,
// and each request to connect again, keep its session alive, and its nodes keep everybody else out
// as long as this process lives. Or the servers don't know the session and don't say so: a server
// that knows less than the client has seen, because its data was lost or restored from a backup,
// hangs up without an answer.
//
// Or they answer some requests, and not the important ones. A server, or a device in between, may
// confirm the session on each new connection and answer nothing else, or answer reads and no
// writes, so that nodes can't be deleted.
//
// So a session is over when no request on it was answered for its timeout. While the session may
// have nodes, it is also over when no write was answered for its timeout. A request to connect
// again doesn't count. The owner of nodes must renew or remove them by writes within the timeout.
// After a write whose answer is lost nobody knows whether it has created or deleted a node: until a
// later write is answered, it counts as a node.
//
// This ends nothing early that counts from an acknowledged write, or from an earlier moment, for
// less than the timeout. An answer that comes later proves nothing, because the servers may be
// ending the session.
//
// After that, nothing asks the servers for the session again, with one exception: they are asked to
// end it (gone.go), in case they receive that.

// checkSilence is called when the session may have been silent for its timeout.
func (s *Session) checkSilence() {
	hasNodes := s.config.Events.HasNodes()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.IsOver() {
		return
	}
	last := min(s.heard, s.unsure)
	if hasNodes {
		last = min(last, s.written)
	}
	if left := last.Add(s.config.Timeout).Sub(driver.Now()); left > 0 {
		s.silence.Reset(left)
		return
	}
	s.End(ErrSilent)
}

// stopSilence is called when the session is over.
func (s *Session) stopSilence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silence != nil {
		s.silence.Stop()
	}
}

// read notes that a read was answered, and returns when it was sent. A refusal is an answer, too.
func (s *Session) read(ask func() error) (sent driver.Instant, err error) {
	sent = driver.Stamp()
	err = ask()
	if !Broken(err) {
		s.mu.Lock()
		s.heard = max(s.heard, sent)
		s.mu.Unlock()
	}
	return sent, err
}

// write notes whether a write was answered, and returns when it was sent. A refusal is an answer,
// too: the quorum agrees on it as well.
func (s *Session) write(ask func() error) (sent driver.Instant, err error) {
	sent = driver.Stamp()
	err = ask()
	s.noteWrite(sent, !Broken(err))
	return sent, err
}

// noteWrite notes that a write was answered, or that its answer is lost. unsure is when the oldest
// write was sent whose answer is lost, while no later write is answered: that write may have
// created a node. unsure is never earlier than written, and nothing counts from a later moment than
// written.
func (s *Session) noteWrite(sent driver.Instant, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !answered {
		if sent >= s.written { // else a later one has been answered already
			s.unsure = min(s.unsure, sent)
		}
		return
	}
	s.heard = max(s.heard, sent)
	s.written = max(s.written, sent)
	if s.unsure <= sent {
		s.unsure = driver.Never
	}
}

package zkconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// The connections of a session, one after the other, as go-zookeeper makes and loses them.

// dial is go-zookeeper's dialer. A session that is over gets no more connections; that includes the
// second session, for which go-zookeeper would ask.
func (s *Session) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	kit.Sleep(s.life, s.hosts.pause())
	ctx, cancel := context.WithTimeout(s.life, max(s.config.AnswerTimeout, 500*time.Millisecond))
	defer cancel()
	conn, err := s.ensemble.Dial(ctx, network, addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.IsOver() {
		_ = conn.Close()
		err = ErrOver
	}
	if err != nil {
		s.lastConnErr = overdueAt(addr, err)
		return nil, err
	}
	w := newWire(conn, addr, s.config.AnswerTimeout, s.config.HoldAfter, s.hosts.answered)
	if s.wire != nil {
		w.seen = s.wire.lastSeen()
	}
	s.wire = w
	return w, nil
}

// event is called in go-zookeeper's goroutines, in order.
func (s *Session) event(e zk.Event) {
	switch {
	case e.Type == zk.EventNodeDeleted:
		s.config.Events.NodeDeleted(e.Path)
	case e.Type == zk.EventNodeDataChanged:
		s.config.Events.NodeChanged(e.Path)
	case e.Type != zk.EventSession:
	case e.State == zk.StateHasSession:
		s.connected()
	case e.State == zk.StateDisconnected:
		s.disconnected()
	case e.State == zk.StateExpired:
		s.endReported(ErrExpired)
	}
}

// connected is called when a server has confirmed the session, for the first time or again.
func (s *Session) connected() {
	s.mu.Lock()
	g := s.wire.receivedGreeting()
	granted := time.Duration(g.timeout) * time.Millisecond
	first := s.silence == nil
	if first {
		s.heard, s.written, s.id, s.password = g.sent, g.sent, g.session, g.password
		s.silence = time.AfterFunc(s.config.Timeout, s.checkSilence)
	}
	s.lastConnErr = nil
	s.server = s.wire.addr
	s.mu.Unlock()

	if first && granted < s.config.Timeout {
		s.End(&ShortError{granted})
		return
	}
	s.config.Events.Connected(Confirmation{g.sent, g.answered, granted})

	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isUp {
		s.isUp = true
		close(s.up)
	}
}

func (s *Session) disconnected() {
	refused := s.noteDisconnect()
	if refused { // each further connect would keep the session, and its nodes, alive
		s.endReported(ErrRefused)
	}
}

// noteDisconnect notes why there is no connection, and reports whether the credentials were
// refused.
func (s *Session) noteDisconnect() (refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isUp {
		s.isUp = false
		s.up = make(chan struct{})
	}
	if s.wire == nil {
		return false
	}
	err := s.wire.whyNoGreeting()
	if errors.Is(err, errHungUp) && s.silence != nil {
		err = fmt.Errorf("%w, or it knows less than this client has seen (was its data lost, or restored?)", err)
	}
	if err != nil {
		s.lastConnErr = err
	}
	return s.wire.wasRefused()
}

// endReported ends the session. Lost is called first, so that nobody sees the end before it was
// reported.
func (s *Session) endReported(cause error) {
	s.config.Events.Lost(cause)
	s.End(cause)
}

// Ready waits until requests can be sent. ctx is a time limit: its end is the servers' failure.
func (s *Session) Ready(ctx context.Context) error {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	select {
	case <-s.life.Done():
	case <-ctx.Done():
	default:
		select {
		case <-up:
			return nil
		case <-s.life.Done():
		case <-ctx.Done():
		}
	}
	if s.IsOver() {
		return fmt.Errorf("%w: %w", ErrOver, s.Cause())
	}
	return s.Unanswered()
}

// Unanswered is the error of a request that was not answered in time. Without a connection it is
// ErrNoServer, with the reason as far as it is known.
func (s *Session) Unanswered() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isUp:
		return fmt.Errorf("%w from %s", locker.ErrNoAnswer, s.wire.addr)
	case s.lastConnErr == nil:
		return ErrNoServer
	}
	return fmt.Errorf("%w: %w", ErrNoServer, s.lastConnErr)
}

// confirmedAt is the address of the server that has confirmed the session last.
func (s *Session) confirmedAt() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// present is the present connection, or the last one.
func (s *Session) present() *wire {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wire
}

// closeConn closes the present connection, or the last one.
func (s *Session) closeConn() {
	if w := s.present(); w != nil {
		_ = w.Close()
	}
}

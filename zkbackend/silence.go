package zkbackend

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/zkconn"
)

// The servers may hear a client that doesn't hear them. Then its requests, and each request to connect again, keep its
// session alive, and its nodes keep everybody else out for as long as this process lives. Or the servers don't know the
// session and don't say so: a server that knows less than the client has seen, because its data was lost or restored
// from a backup, hangs up without an answer.
//
// Or they answer some requests, and not those that count. A server, or what is between, may confirm the session on each new
// connection and answer nothing else, or answer reads and no writes. The leases are over then, and nothing that is left can be removed.
//
// So a session is over when no request on it was answered for its timeout, or, while it may have nodes, no write. To connect again
// is no such request. Nodes are renewed by writes, those of waiters too, or removed by writes, so a session with nodes has always
// sent one within the TTL. Of a write whose answer is lost nobody knows whether it has made or removed a node: until a later one is
// answered, it counts as a node.
//
// That ends no lease early. A lease counts from when an acknowledged write was sent, or earlier, for the TTL, and the
// timeout is longer than the TTL. That is so for leases that are not renewed as well: they have ended before the session is
// over, and their removal is a write. An answer that comes later proves nothing (see wrote).
//
// Nothing asks the servers for the session again, with one exception: they are asked to end it, in case they hear that.
// The next acquisition opens another session, the waiters queue again there, and what may have been left under the old
// session is removed by its owner.

var errSilent = errors.New("the servers have answered nothing on the session, or no write, for longer than its timeout")

// listen is called when the session may have been silent for its timeout.
func (s *session) listen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOver() {
		return
	}
	last := min(s.heard, s.unsure)
	if len(s.nodes) > 0 {
		last = min(last, s.written)
	}
	if left := last.Add(s.timeout).Sub(driver.Now()); left > 0 {
		s.silence.Reset(left)
		return
	}
	s.end(errSilent)
}

// noteWrite takes in that a write which was sent at sent was answered, or that its answer is lost. So unsure is never earlier than
// written, and no lease counts from a later moment than written.
func (s *session) noteWrite(sent driver.Instant, answered bool) {
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

// stopListening is called when the session is over.
func (s *session) stopListening() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silence != nil {
		s.silence.Stop()
	}
}

// leaveLimit bounds how long the servers are asked to end a session.
const leaveLimit = 2 * time.Second

// takeLeave asks all servers at once to end the session, until one has confirmed it. It asks for the shortest timeout as
// it connects, so that the session ends soon even if the rest is lost.
func (s *session) takeLeave() {
	s.mu.Lock()
	id, password := s.id, s.password
	s.mu.Unlock()
	ctx, confirmed := context.WithTimeout(context.Background(), leaveLimit)
	defer confirmed()
	var all sync.WaitGroup
	for _, addr := range s.d.servers {
		all.Go(func() {
			if s.d.endSession(ctx, addr, id, password) == nil {
				confirmed()
			}
		})
	}
	all.Wait()
}

// endSession asks one server to end a session. A session that has ended already is no error.
func (d *zkDriver) endSession(ctx context.Context, addr string, id int64, password [zkconn.PasswordSize]byte) error {
	conn, err := d.dial(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer zkconn.Limit(ctx, conn)()
	if _, err := conn.Write(append(zkconn.ConnectRequest(time.Millisecond, id, password), zkconn.CloseRequest()...)); err != nil {
		return err
	}
	if _, err := zkconn.ReadGreeting(conn); err != nil {
		return err
	}
	return zkconn.UntilHungUp(conn)
}

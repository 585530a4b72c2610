package zkconn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// When can no request of a session be executed any more?
//
// Not when the session is over here. The kernel, or the network, may still have a request whose
// connection was given up, and deliver it much later. A server executes it as long as the leader
// knows the session, and the session isn't on another connection. If it creates a node, that node
// exists until the servers end the session.
//
// So the servers are asked to end the session. Two of their answers prove something:
//
//   - "closed", the answer to that request. The quorum has ended the session, so no leader knows it
//     any more.
//   - "expired", the answer to the request to connect with the session. The leader doesn't know the
//     session, or has decided to end it, and refuses its requests from then on. That is a proof only
//     if this leader isn't an old one that the quorum has left, because the new one may know the
//     session. So the request to connect shows a transaction ("seen") that a quorum has acknowledged
//     later than all connections of the session were made. Only a server that knows this transaction
//     answers, so its leader is not older than the one that has ordered it. And a request that is on
//     its way to a server with an older leader is never executed: that leader has no quorum any more,
//     and a server that changes its leader closes all connections.
//
// After "expired" the session's nodes may exist for a while, or for good: the leader decides first,
// and removes the nodes later. Others must look for them. But none is added.
//
// With local sessions (localSessionsEnabled) a session that never had a node is known to one server
// only, and "expired" from another one proves nothing.

// expiredGrace is how long the other servers have after "expired".
const expiredGrace = 250 * time.Millisecond

var errNotConfirmed = errors.New("no server has confirmed the end of a session")

// Seen is the newest transaction that the servers have shown on the session. After the answer to a
// write it is that write, or a later one.
func (s *Session) Seen() int64 {
	if w := s.present(); w != nil {
		return w.lastSeen()
	}
	return 0
}

// IsGone reports whether it was proved that no request of the session can be executed any more.
func (s *Session) IsGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// ConfirmGone asks all servers at once to end a session that is over. It returns nil when one of them
// has proved that no request of the session can be executed any more. seen is what [Session.Seen] of
// another session says after a write that was sent when this one was over.
func (s *Session) ConfirmGone(ctx context.Context, seen int64) error {
	if s.IsGone() {
		return nil
	}
	err := s.endOnServers(ctx, seen, "")
	switch {
	case s.IsGone():
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errNotConfirmed, err)
	}
	return errNotConfirmed
}

// endOnServers asks all servers at once to end the session, until one of them has answered "closed",
// or for a moment longer after "expired": another one may know a local session. It asks for the
// shortest timeout as it connects, so that the session ends soon even if the rest is lost. farewell is
// the address of a server that gets all requests at once, because its answers may be lost: see
// ending.go. err is of a server that could not be asked.
func (s *Session) endOnServers(ctx context.Context, seen int64, farewell string) (err error) {
	s.mu.Lock()
	c := connect{seen: seen, timeout: time.Millisecond, id: s.id, password: s.password}
	s.mu.Unlock()
	ctx, answered := context.WithCancel(ctx) // openAndEnd has a limit
	defer answered()
	var all sync.WaitGroup
	for _, addr := range s.ensemble.Servers {
		c := c
		c.farewell = addr == farewell
		all.Go(func() {
			a, failure := s.ensemble.openAndEnd(ctx, addr, c)
			s.mu.Lock()
			defer s.mu.Unlock()
			switch {
			case a.closed:
				s.gone = true
				answered()
			case a.expired:
				s.gone = s.gone || seen > 0
				time.AfterFunc(expiredGrace, answered)
			case failure != nil && ctx.Err() == nil:
				err = overdueAt(addr, failure)
			}
		})
	}
	all.Wait()
	return err
}

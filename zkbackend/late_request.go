package zkbackend

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/internal/zkconn"
)

// A request to create something that was left without an answer may be executed late: the network
// may still have it. While its session goes on, the next connection stops it. When the session is
// over here, nothing does, until the servers have ended it, which may be long after: zkconn's gone.go
// says what proves that.

// stopLateRequests returns nil when no request of an earlier session can create anything any more.
// What was created by then is found in a list that is asked for later.
func (l *lock) stopLateRequests(ctx context.Context, s *session) error {
	for _, earlier := range l.unproven {
		if err := s.repeat(ctx, func() error { return l.endOnServers(ctx, s, earlier) }); err != nil {
			return err
		}
	}
	return nil
}

// endOnServers makes the servers end a session, for all acquisitions that want it at the same time.
func (l *lock) endOnServers(ctx context.Context, s, earlier *session) error {
	if earlier.conn.IsGone() {
		return nil
	}
	// The proof needs a write that was sent when the earlier session was over.
	if err := zkconn.Ignore(s.lockDir(l.dir).catchUp(ctx), zk.ErrNoNode); err != nil {
		return err
	}
	seen := s.conn.Seen()
	_, err := earlier.farewell.Do(ctx, l.tasks, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, earlier.conn.ConfirmGone(ctx, seen)
	})
	return err
}

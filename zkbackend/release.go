package zkbackend

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/internal/zkconn"
)

// Release deletes the node. If there may be another one, whose path isn't known, it deletes all
// nodes of this owner, once the quorum has answered: a server that is cut off may not know a node
// that exists. The servers remove the lock's node, but only if it ever had a child. What outlives a
// session is removed on the next one: the lock's node, and the nodes that the servers have not
// removed yet.
func (l *lock) Release(ctx context.Context) error {
	for {
		l.leaveOldSession()
		if l.isClear() {
			return nil
		}
		s, err := l.useSession(ctx)
		if err != nil {
			return err
		}
		if err := l.removeRemains(ctx, s); err == nil {
			l.noteRemoved(s)
			return nil
		} else if !errors.Is(err, zkconn.ErrOver) || ctx.Err() != nil {
			return err
		}
	}
}

// removeRemains removes what may exist on the servers.
func (l *lock) removeRemains(ctx context.Context, s *session) error {
	l.mu.Lock()
	path, remains, createdDir := l.path, l.remains, l.createdDir
	l.mu.Unlock()
	removeNodes := func() error { return s.lockDir(l.dir).removeAll(ctx, l.owner) }
	if remains == oneNode && path != "" {
		removeNodes = func() error { return s.conn.Delete(path) }
	}
	if remains != nothing {
		if err := s.remove(ctx, removeNodes); err != nil {
			return err
		}
	}
	if createdDir {
		return s.remove(ctx, func() error { return s.conn.Delete(l.dir) })
	}
	return nil
}

// noteRemoved notes that nothing exists on the servers any more, and leaves the session.
func (l *lock) noteRemoved(s *session) {
	l.mu.Lock()
	path := l.path
	if l.remains == oneNode && l.granted && l.dirVersion >= 0 {
		l.freed.remember(l.dir, l.dirVersion)
	}
	l.session, l.path, l.remains, l.createdDir = nil, "", nothing, false
	l.mu.Unlock()
	s.untrack(path)
	l.sessions.Leave(s)
}

// isClear reports whether nothing can exist on the servers.
func (l *lock) isClear() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session == nil && l.remains == nothing && !l.createdDir
}

// remove deletes something, and tries again when the connection ends. When the session ends the error
// is zkconn.ErrOver.
func (s *session) remove(ctx context.Context, del func() error) error {
	for {
		if err := s.conn.Ready(ctx); err != nil {
			return err
		}
		err := zkconn.Ignore(del(), zk.ErrNoNode, zk.ErrNotEmpty) // not empty: others use the lock's node
		if !zkconn.Broken(err) && !errors.Is(err, zkconn.ErrOver) {
			return explain(err)
		}
	}
}

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
// session is removed on the next one: the lock's node, and nodes of a session that the servers have
// not ended.
func (l *lock) Release(ctx context.Context) error {
	l.leaveOldSession()
	if l.isClear() {
		return nil
	}
	s, err := l.useSession(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	path, owner, remains, createdDir := l.path, l.owner, l.remains, l.createdDir
	l.mu.Unlock()
	dir := s.lockDir(l.dir)
	removeNodes := func() error {
		if remains == oneNode && path != "" {
			return s.conn.Delete(path)
		}
		return dir.removeAll(ctx, owner)
	}
	if remains != nothing {
		if err := s.remove(ctx, removeNodes, remains != earlierNode); err != nil {
			return err
		}
	}
	if createdDir {
		if err := s.remove(ctx, func() error { return s.conn.Delete(l.dir) }, false); err != nil {
			return err
		}
	}
	l.mu.Lock()
	path = l.path
	if remains == oneNode && l.granted && l.dirVersion >= 0 {
		l.freed.remember(l.dir, l.dirVersion)
	}
	l.session, l.path, l.remains, l.createdDir = nil, "", nothing, false
	l.mu.Unlock()
	s.untrack(path)
	l.sessions.Leave(s)
	return nil
}

// isClear reports whether nothing can exist on the servers.
func (l *lock) isClear() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session == nil && l.remains == nothing && !l.createdDir
}

// remove deletes something, and tries again when the connection ends. If ephemeral, what is deleted
// ends with the session.
func (s *session) remove(ctx context.Context, del func() error, ephemeral bool) error {
	for {
		err := s.conn.Ready(ctx)
		switch {
		case errors.Is(err, zkconn.ErrExpired) && ephemeral:
			return nil
		case err != nil:
			return err
		}
		err = zkconn.Ignore(del(), zk.ErrNoNode, zk.ErrNotEmpty) // not empty: others use the lock's node
		if !zkconn.Broken(err) && !errors.Is(err, zkconn.ErrOver) {
			return explain(err)
		}
	}
}

package zkbackend

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/internal/zkconn"
)

// Release deletes the node. If there may be another one, whose path isn't known, it deletes all
// nodes of this owner, once the quorum has answered: a server that is cut off may not know a node
// that exists. The servers remove the lock's node, but only if it ever had a child; so where it may
// have had none, Release deletes it. What outlives a session is removed on any other one: the lock's
// node, and the nodes that the servers have not removed yet.
func (l *lock) Release(ctx context.Context) error {
	if err := l.awaitJoined(ctx); err != nil {
		return err
	}
	for {
		l.leaveOldSession()
		if l.isClear() {
			return nil
		}
		s, err := l.useAnySession(ctx)
		if err != nil {
			return err
		}
		err = l.removeRemains(ctx, s)
		switch {
		case err == nil:
			l.noteRemoved(s)
			return nil
		case !errors.Is(err, zkconn.ErrOver) || ctx.Err() != nil:
			return err
		}
	}
}

// isClear reports whether nothing can exist on the servers.
func (l *lock) isClear() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session == nil && l.remains == nothing && !l.createdDir && !l.lateDir
}

// removeRemains removes what may exist on the servers. Where a late request may create something,
// that comes twice: before the servers have ended the session of that request, so that others don't
// wait for it, and after it.
func (l *lock) removeRemains(ctx context.Context, s *session) error {
	late := slices.ContainsFunc(l.unproven, func(earlier *session) bool { return !earlier.conn.IsGone() })
	err := l.removeNodes(ctx, s)
	if err == nil && late {
		if err = l.stopLateRequests(ctx, s); err == nil {
			err = l.removeNodes(ctx, s)
		}
	}
	if err == nil && (l.createdDir || l.lateDir) {
		err = s.repeat(ctx, func() error { return s.conn.Delete(l.dir) })
	}
	return err
}

func (l *lock) removeNodes(ctx context.Context, s *session) error {
	l.mu.Lock()
	path, remains := l.path, l.remains
	l.mu.Unlock()
	switch {
	case remains == nothing:
		return nil
	case remains == oneNode && path != "":
		return s.repeat(ctx, func() error { return s.conn.Delete(path) })
	}
	return s.repeat(ctx, func() error { return s.lockDir(l.dir).removeAll(ctx, l.owner) })
}

// noteRemoved notes that nothing exists on the servers any more, and leaves the session.
func (l *lock) noteRemoved(s *session) {
	l.mu.Lock()
	path := l.path
	if l.remains == oneNode && l.granted && l.dirVersion >= 0 {
		l.freed.remember(l.dir, l.dirVersion)
	}
	l.session, l.path, l.remains, l.createdDir = nil, "", nothing, false
	l.unanswered, l.dirInDoubt, l.unproven, l.lateDir = false, false, nil, false
	l.mu.Unlock()
	s.untrack(path)
	l.sessions.Leave(s)
}

// repeat makes a request of a removal, and makes it again when the connection ends. When the session
// ends the error is zkconn.ErrOver.
func (s *session) repeat(ctx context.Context, ask func() error) error {
	var pause listPause
	for {
		if err := s.conn.Ready(ctx); err != nil {
			return err
		}
		err := zkconn.Ignore(ask(), zk.ErrNoNode, zk.ErrNotEmpty) // not empty: others use the lock's node
		if !zkconn.Broken(err) && !errors.Is(err, zkconn.ErrOver) {
			return explain(err)
		}
		pause.after(ctx, err, s)
	}
}

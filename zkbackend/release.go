package zkbackend

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/internal/zkconn"
)

// Release deletes the node. Where there may be one that isn't known, it looks for all that have this owner, once the quorum has
// answered: a node that a server doesn't know which is cut off may stand all the same. The servers remove the lock's node, but
// only if there was ever one below it. What outlasts a session is removed on the next one: the lock's node, and nodes of a session
// that the servers have not ended yet.
func (l *lock) Release(ctx context.Context) error {
	l.part()
	if l.isClear() {
		return nil
	}
	s, err := l.enter(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	path, owner, asked, bare, earlier := l.path, l.owner, l.asked, l.bare, l.earlier
	if l.doubt {
		path = ""
	}
	l.mu.Unlock()
	if asked {
		if err := l.remove(ctx, s, path, owner, !earlier); err != nil {
			return err
		}
	}
	if bare {
		if err := l.remove(ctx, s, l.dir, "", false); err != nil {
			return err
		}
	}
	l.mu.Lock()
	path = l.path
	l.session, l.path, l.asked, l.doubt, l.bare, l.earlier = nil, "", false, false, false, false
	l.mu.Unlock()
	s.fall(path)
	l.d.leave(s)
	return nil
}

// isClear reports whether nothing can stand.
func (l *lock) isClear() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session == nil && !l.asked && !l.bare
}

// remove deletes a node, or all of an owner. ends says that what is removed ends with the session.
func (l *lock) remove(ctx context.Context, s *session, path, owner string, ends bool) error {
	for {
		err := s.ready(ctx)
		switch {
		case errors.Is(err, errExpired) && ends:
			return nil
		case err != nil:
			return err
		case path != "":
			err = s.deleteNode(path)
		default:
			err = s.removeAll(ctx, l.dir, owner)
		}
		err = zkconn.Ignore(zkconn.Ignore(err, zk.ErrNoNode), zk.ErrNotEmpty) // somebody else uses the lock's node
		if !broken(err) && !errors.Is(err, errOver) {
			return explain(err)
		}
	}
}

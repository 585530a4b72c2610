package zkbackend

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/zkconn"
)

// watch is the wait for the end of a node. There is one for each node, which is shared.
type watch struct {
	over    chan struct{} // closed when there is news, or the watch could not be set
	deleted bool          // once that is closed: the node has gone
}

func (s *session) watch(path string) (*watch, error) {
	s.mu.Lock()
	if w := s.watched[path]; w != nil {
		s.mu.Unlock()
		return w, nil
	}
	w := &watch{over: make(chan struct{})}
	s.watched[path] = w // before it is asked for, so that no event is missed
	s.mu.Unlock()
	_, _, err := s.conn.Get(path) // which leaves no watch on a node that isn't there
	if err != nil {
		s.unwatch(path, errors.Is(err, zk.ErrNoNode))
	}
	return w, zkconn.Ignore(err, zk.ErrNoNode)
}

// unwatch wakes those who wait for the end of a node.
func (s *session) unwatch(path string, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watched[path]; w != nil {
		w.deleted = deleted
		close(w.over)
		delete(s.watched, path)
	}
}

// changed is called when somebody has written to such a node, which uses up the watch: who waits looks again, and one of
// ours is watched anew at the next beat.
func (s *session) changed(path string) {
	s.unwatch(path, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.nodes[path]; l != nil {
		s.fresh = append(s.fresh, l)
	}
}

// deleted is called when a node has gone, be it one that is waited for, or one of ours.
func (s *session) deleted(path string) {
	s.unwatch(path, true)
	s.mu.Lock()
	l := s.nodes[path]
	delete(s.nodes, path)
	s.mu.Unlock()
	if l != nil {
		l.tellLost(fmt.Errorf("%w: %w", locker.ErrLost, errRemoved))
	}
}

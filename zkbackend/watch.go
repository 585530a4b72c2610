package zkbackend

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/zkconn"
)

// watch is the wait for the end of a node. All who wait for the same node share it.
type watch struct {
	over    chan struct{} // closed when the watch has ended, or could not be set
	deleted bool          // once over is closed: the node has gone
}

// watch watches a node of another acquisition.
func (s *session) watch(path string) (*watch, error) {
	s.mu.Lock()
	if w := s.watched[path]; w != nil {
		s.mu.Unlock()
		return w, nil
	}
	w := &watch{over: make(chan struct{})}
	s.watched[path] = w // before the request, so that no event is missed
	s.mu.Unlock()
	_, _, _, err := s.conn.GetAndWatch(path)
	if err != nil {
		s.endWatch(path, errors.Is(err, zk.ErrNoNode))
	}
	return w, zkconn.Ignore(err, zk.ErrNoNode)
}

// endWatch wakes all who wait for the end of a node.
func (s *session) endWatch(path string, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watched[path]; w != nil {
		w.deleted = deleted
		close(w.over)
		delete(s.watched, path)
	}
}

// endWatches is called with mu held after a connect, by which all watches have ended: waiters look
// again, and own nodes are watched again at once.
func (s *session) endWatches() {
	for path, w := range s.watched {
		close(w.over)
		delete(s.watched, path)
	}
	s.created, s.changed, s.unwatched = nil, nil, make([]*lock, 0, len(s.nodes))
	for _, l := range s.nodes {
		s.unwatched = append(s.unwatched, l)
	}
	s.conn.Wake()
}

// watchOwnNodes watches own nodes that are not watched: those that were created before the last
// heartbeat, all nodes after a connect, and those that somebody has written to. A lock that is
// released within a heartbeat never costs a watch. After each round of requests it looks again what
// is to be read: a mark is not read later because there are many nodes.
func (s *session) watchOwnNodes() {
	for next := s.nextUnwatched(); len(next) > 0; next = s.nextUnwatched() {
		broken := false
		kit.Parallel(maxParallel, next, func(l *lock) {
			_, path := l.position()
			if path == "" || !s.isTracked(path) {
				return
			}
			if err := s.readOwn(l, path); zkconn.Broken(err) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.unwatched = append(s.unwatched, l)
				broken = true
			}
		})
		if broken { // the next connect, or the next heartbeat, tries again
			return
		}
	}
}

// nextUnwatched returns the locks whose nodes are read in the next round of requests.
func (s *session) nextUnwatched() (next []*lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range []*[]*lock{&s.changed, &s.unwatched} {
		n := min(len(*list), maxParallel-len(next))
		next = append(next, (*list)[:n]...)
		*list = slices.Delete(*list, 0, n)
	}
	return next
}

// readOwn reads an own node, and watches it. The lease is lost if the node is gone, or if an operator has
// marked it; the error says that, too.
func (s *session) readOwn(l *lock, path string) error {
	data, stat, sent, err := s.conn.GetAndWatch(path)
	if zkconn.Broken(err) {
		return err
	}
	s.answered(sent, driver.Now())
	if errors.Is(err, zk.ErrNoNode) {
		s.NodeDeleted(path)
		return fmt.Errorf("%w: %w", locker.ErrLost, errRemoved)
	}
	if err != nil {
		return explain(err)
	}
	if _, breach := kit.ReadMarked(string(data)); breach != nil {
		err := driver.Broken(*breach)
		l.notifyLost(err)
		return err
	}
	l.noteVersion(path, stat.Version)
	return nil
}

// NodeChanged is called when somebody has written to a watched node, which ends the watch: waiters
// look again, and an own node is read at once, and watched again.
func (s *session) NodeChanged(path string) {
	s.endWatch(path, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.nodes[path]; l != nil {
		s.changed = append(s.changed, l)
		s.conn.Wake()
	}
}

// NodeDeleted is called when a watched node has gone, another acquisition's or one of this
// session's.
func (s *session) NodeDeleted(path string) {
	s.endWatch(path, true)
	s.mu.Lock()
	l := s.nodes[path]
	delete(s.nodes, path)
	s.mu.Unlock()
	if l != nil {
		l.notifyLost(fmt.Errorf("%w: %w", locker.ErrLost, errRemoved))
	}
}

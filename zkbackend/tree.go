package zkbackend

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/zkconn"
)

// What is asked about the nodes of a lock. All of these calls zkconn.Ignore contexts; they are bounded by the connection.

// catchUp makes the next reads know all that was carried out before, of what this session has asked, too. A write does that: the
// quorum has to agree, so the server that has answered it is not cut off, and has applied what came earlier; and a server that the session moves to
// later doesn't take it unless it knows as much. A server that is only asked to sync may be cut off, and not know it. The lock's
// node is checked for that, which changes nothing; when it is missing, the answer is no less the quorum's.
func (s *session) catchUp(ctx context.Context, dir string) error {
	_, _, err := s.checkAll(ctx, []check{{path: dir}})
	return err
}

// queue lists the nodes of a lock, in the order in which they were made.
func (s *session) queue(dir string) ([]node, *zk.Stat, error) {
	names, stat, err := s.conn.Children(dir)
	if err != nil {
		return nil, nil, err
	}
	nodes := parseNodes(names)
	if !overflows(nodes) {
		return nodes, stat, nil
	}
	czxids := make(map[string]int64, len(nodes))
	for _, n := range nodes {
		_, stat, err := s.conn.Exists(dir + "/" + n.name)
		if err != nil {
			return nil, nil, err
		}
		czxids[n.name] = stat.Czxid // 0: it has gone meanwhile
	}
	nodes = slices.DeleteFunc(nodes, func(n node) bool { return czxids[n.name] == 0 })
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(czxids[a.name], czxids[b.name]) })
	return nodes, stat, nil
}

// count returns the version of a lock's node if nobody holds the lock or waits for it, else locker.ErrHeld. A server may
// be a little behind; so it is not taken at its word when it knows somebody, and the version is compared when it doesn't.
// That somebody may have gone when the server is cut off: to find that out would cost those who only try a write each time, and
// nothing is granted or removed on the strength of it.
func (s *session) count(dir string) (version int32, err error) {
	there, stat, err := s.conn.Exists(dir)
	switch {
	case err != nil:
		return 0, err
	case !there:
		return 0, zk.ErrNoNode
	case stat.NumChildren == 0:
		return stat.Version, nil
	}
	if _, err := s.conn.Sync(dir); err != nil {
		return 0, err
	}
	nodes, stat, err := s.queue(dir)
	switch {
	case err != nil:
		return 0, err
	case len(nodes) > 0:
		return 0, locker.ErrHeld
	}
	return stat.Version, nil
}

// makeDir makes the node of a lock, and those above it if they are missing. It is a container, which the servers remove
// when it has been empty for a while; then it is made again. It never joins the request that makes the node of an
// acquisition: go-zookeeper could not read the answer, and the node would be nobody's.
func (s *session) makeDir(dir string) error {
	_, err := s.conn.CreateContainer(dir, nil, zk.FlagContainer, s.d.acl)
	if errors.Is(err, zk.ErrNoNode) {
		if err := s.makeRoot(); err != nil {
			return err
		}
		_, err = s.conn.CreateContainer(dir, nil, zk.FlagContainer, s.d.acl)
	}
	return zkconn.Ignore(err, zk.ErrNodeExists)
}

// makeRoot makes the nodes of the chroot. Those above it are looked at only when it isn't there: they may be others', whom nobody may
// look at.
func (s *session) makeRoot() error {
	if there, _, err := s.conn.Exists(s.d.root); err != nil || there {
		return err
	}
	for i := range s.d.root {
		if i > 0 && s.d.root[i] == '/' {
			if err := s.makeNode(s.d.root[:i]); err != nil {
				return err
			}
		}
	}
	return s.makeNode(s.d.root)
}

// makeNode makes a node unless it is there. Whether that may be looked up is another permission than whether it may be made.
func (s *session) makeNode(path string) error {
	if there, _, err := s.conn.Exists(path); err != nil || there {
		return err
	}
	_, err := s.conn.Create(path, nil, zk.FlagPersistent, s.d.acl)
	return zkconn.Ignore(err, zk.ErrNodeExists)
}

// removeAll deletes all nodes of an owner.
func (s *session) removeAll(ctx context.Context, dir, owner string) error {
	if err := s.catchUp(ctx, dir); err != nil {
		return err
	}
	names, _, err := s.conn.Children(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, owner) {
			continue
		}
		if err := zkconn.Ignore(s.deleteNode(dir+"/"+name), zk.ErrNoNode); err != nil {
			return err
		}
	}
	return nil
}

// beat asks something, so that there is always a fresh sign of life: see proof.go. And it watches the nodes that have come
// to stand since the last beat, or all after a connect, which gives signs of life as well; a lock that is given back within a
// beat never costs one.
func (s *session) beat() {
	_ = s.read(func() error {
		_, _, err := s.conn.Exists("/")
		return err
	})
	s.mu.Lock()
	fresh := s.fresh
	s.fresh = nil
	s.mu.Unlock()
	for i, l := range fresh {
		_, path := l.position()
		if path == "" || !s.stands(path) {
			continue
		}
		err := s.read(func() error {
			_, _, err := s.conn.Get(path)
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			s.deleted(path)
		case broken(err): // at the next beat again
			s.mu.Lock()
			s.fresh = append(s.fresh, fresh[i:]...)
			s.mu.Unlock()
			return
		}
	}
}

// deleteNode deletes a node, whatever its version.
func (s *session) deleteNode(path string) error {
	_, err := s.write(func() error { return s.conn.Delete(path, -1) })
	return err
}

// write notes whether a write was answered, and returns when it was sent. A refusal is an answer too: the quorum agrees on it as well.
func (s *session) write(ask func() error) (sent driver.Instant, err error) {
	sent = driver.Stamp()
	err = ask()
	s.noteWrite(sent, !broken(err))
	return sent, err
}

// read notes that something was answered.
func (s *session) read(ask func() error) error {
	sent := driver.Stamp()
	err := ask()
	if !broken(err) {
		s.answered(sent)
	}
	return err
}

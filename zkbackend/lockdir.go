package zkbackend

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/zkconn"
)

// chroot is the node below which all locks are.
type chroot struct {
	path string
	acl  []zk.ACL // of nodes that are created
}

// lockDir is a lock's node, whose children are the holder and the waiters, as one session sees it.
// Its methods ignore the end of a context; the connection bounds them.
type lockDir struct {
	s    *session
	path string
}

func (s *session) lockDir(path string) lockDir { return lockDir{s, path} }

// queue lists the nodes of holder and waiters, in the order in which they were created.
func (d lockDir) queue() ([]node, *zk.Stat, error) {
	names, stat, err := d.children()
	if err != nil {
		return nil, nil, err
	}
	nodes := parseNodes(names)
	if !overflows(nodes) {
		return nodes, stat, nil
	}
	czxids := make(map[string]int64, len(nodes))
	for _, n := range nodes {
		stat, err := d.s.conn.Exists(d.path + "/" + n.name)
		if err != nil {
			return nil, nil, err
		}
		if stat != nil {
			czxids[n.name] = stat.Czxid
		}
	}
	nodes = slices.DeleteFunc(nodes, func(n node) bool { return czxids[n.name] == 0 }) // gone in between
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(czxids[a.name], czxids[b.name]) })
	return nodes, stat, nil
}

// versionIfFree returns the version of the lock's node if nobody else than owner holds the lock or
// waits for it, else locker.ErrHeld. (A late request may have created a node of owner: see
// late_request.go.) A server may not know the latest writes yet, and one that is cut off won't.
// If it knows of a node, it is made to catch up before that is believed; if it knows of none, the
// version is compared later. caughtUp says that it has answered a write since the acquisition began,
// so it knows enough.
func (d lockDir) versionIfFree(ctx context.Context, owner string, caughtUp bool) (version int32, err error) {
	if !caughtUp {
		stat, err := d.s.conn.Exists(d.path)
		switch {
		case err != nil:
			return 0, err
		case stat == nil:
			return 0, zk.ErrNoNode
		case stat.NumChildren == 0:
			return stat.Version, nil
		}
		if err := d.catchUp(ctx); err != nil {
			return 0, err
		}
	}
	nodes, stat, err := d.queue()
	switch {
	case err != nil:
		return 0, err
	case slices.ContainsFunc(nodes, func(n node) bool { return n.owner != owner }):
		return 0, locker.ErrHeld
	}
	return stat.Version, nil
}

// create creates the lock's node, and those above it if they are missing. It is a container: the
// servers remove it when it has been empty for a while, and then it is created again. It is never
// created in the request that creates an acquisition's node, because go-zookeeper could not read
// the answer, and that node would belong to nobody.
func (d lockDir) create() error {
	err := d.s.conn.CreateContainer(d.path, d.s.chroot.acl)
	if errors.Is(err, zk.ErrNoNode) {
		if err := d.s.createChroot(); err != nil {
			return err
		}
		err = d.s.conn.CreateContainer(d.path, d.s.chroot.acl)
	}
	return zkconn.Ignore(err, zk.ErrNodeExists)
}

// removeAll deletes all nodes of an owner.
func (d lockDir) removeAll(ctx context.Context, owner string) error {
	if err := d.catchUp(ctx); err != nil {
		return err
	}
	names, _, err := d.children()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, owner) {
			continue
		}
		if err := zkconn.Ignore(d.s.conn.Delete(d.path+"/"+name), zk.ErrNoNode); err != nil {
			return err
		}
	}
	return nil
}

// removeOthers deletes the other nodes of the acquisition whose node is path, because that would
// wait for them. They belong to a session that is over here, and that the servers have not ended
// yet. It returns the rest of the queue.
func (d lockDir) removeOthers(path string, queue []node) ([]node, error) {
	isOther := func(n node) bool {
		return strings.HasPrefix(path, d.path+"/"+n.owner+"-") && d.path+"/"+n.name != path
	}
	for _, n := range queue {
		if isOther(n) {
			if err := zkconn.Ignore(d.s.conn.Delete(d.path+"/"+n.name), zk.ErrNoNode); err != nil {
				return nil, err
			}
		}
	}
	return slices.DeleteFunc(queue, isOther), nil
}

// predecessor returns a watch on the node before path's; nil: there is none. isFirst says that the
// predecessor is the first in the queue.
func (d lockDir) predecessor(path string) (w *watch, isFirst bool, err error) {
	queue, _, err := d.queue()
	if errors.Is(err, zk.ErrNoNode) {
		return nil, false, errRemoved
	}
	if err != nil {
		return nil, false, err
	}
	if queue, err = d.removeOthers(path, queue); err != nil {
		return nil, false, err
	}
	i := slices.IndexFunc(queue, func(n node) bool { return d.path+"/"+n.name == path })
	switch i {
	case -1:
		return nil, false, errRemoved
	case 0:
		return nil, false, nil
	}
	w, err = d.s.watch(d.path + "/" + queue[i-1].name)
	return w, i == 1, err
}

// createChroot creates the nodes of the chroot. Those above it are looked at only if it isn't
// there: they may belong to others, and nobody else may look at them.
func (s *session) createChroot() error {
	root := s.chroot.path
	if stat, err := s.conn.Exists(root); err != nil || stat != nil {
		return err
	}
	for i := range root {
		if i > 0 && root[i] == '/' {
			if err := s.createMissing(root[:i]); err != nil {
				return err
			}
		}
	}
	return s.createMissing(root)
}

// createMissing creates a node unless it is there. To look it up and to create it are two permissions.
func (s *session) createMissing(path string) error {
	if stat, err := s.conn.Exists(path); err != nil || stat != nil {
		return err
	}
	return zkconn.Ignore(s.conn.Create(path, s.chroot.acl), zk.ErrNodeExists)
}

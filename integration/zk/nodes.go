//go:build unix

package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// The nodes of locks. Tests read and remove them directly, without a Locker.

// zkDir returns the node of a lock, as docs/zookeeper.md documents it.
func zkDir(name string) string { return zkRoot + "/" + name }

// queue lists the nodes of a lock: the holder's, then the waiters'.
func (s *Service) queue(ctx context.Context, name string) (paths []string, err error) {
	err = s.ask(ctx, func() error {
		if _, err := s.admin.Sync("/"); err != nil {
			return err
		}
		names, _, err := s.admin.Children(zkDir(name))
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
		paths = nil
		for _, n := range names {
			paths = append(paths, zkDir(name)+"/"+n)
		}
		return err
	})
	return paths, err
}

func (s *Service) Waiters(t conformance.T, name string) (n int) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		paths, err := s.queue(ctx, name)
		n = max(len(paths)-1, 0)
		return err
	})
	return n
}

// remove deletes the holder's node.
func (s *Service) remove(t conformance.T, name string) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		paths, err := s.queue(ctx, name)
		if err == nil && len(paths) == 0 {
			err = fmt.Errorf("nobody holds %q", name)
		}
		if err != nil {
			return err
		}
		return s.ask(ctx, func() error { return s.admin.Delete(paths[0], -1) })
	})
}

// walk visits all nodes except ZooKeeper's own, the deepest first.
func (s *Service) walk(path string, visit func(path string) error) error {
	names, _, err := s.admin.Children(path)
	if errors.Is(err, zk.ErrNoNode) { // it has gone meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if path == "/" && name == "zookeeper" {
			continue
		}
		if err := s.walk(strings.TrimSuffix(path, "/")+"/"+name, visit); err != nil {
			return err
		}
	}
	if path == "/" {
		return nil
	}
	return visit(path)
}

// residue lists all nodes except roots. The servers remove a lock's node within a second after its
// last child, if it had one.
func (s *Service) residue(t conformance.T) string {
	t.Helper()
	var left []string
	itest.Must(t, func(ctx context.Context) error {
		return s.ask(ctx, func() error {
			left = nil
			if _, err := s.admin.Sync("/"); err != nil {
				return err
			}
			return s.walk("/", func(path string) error {
				if isRoot := strings.Count(path, "/") == 1 || s.roots[path]; !isRoot {
					left = append(left, path)
				}
				return nil
			})
		})
	})
	return strings.Join(left, ", ")
}

// flush removes all nodes except the root node of the Lockers.
func (s *Service) flush(t conformance.T) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		return s.ask(ctx, func() error {
			if _, err := s.admin.Sync("/"); err != nil {
				return err
			}
			return s.walk("/", func(path string) error {
				if path == zkRoot {
					return nil
				}
				err := s.admin.Delete(path, -1)
				if errors.Is(err, zk.ErrNoNode) {
					err = nil
				}
				return err
			})
		})
	})
}

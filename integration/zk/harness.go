//go:build unix

package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/zkbackend"
)

// ensembles are for tests that run in parallel.
var ensembles = itest.LazyPool("zookeeper", maxEnsembles, startZk)

// maxEnsembles is the number of ensembles of one kind. Most cases spend their time waiting for TTLs
// to end.
const maxEnsembles = 2

// Ensemble is the first ensemble.
func Ensemble(t *testing.T) *Service { return ensembles(t).First }

// Open makes a Locker whose requests are counted.
func (s *Service) Open(t conformance.T, opts ...zkbackend.Option) locker.Locker {
	t.Helper()
	return s.Through(t, s.counter.dial, s.Addrs(), opts...)
}

// Through makes a Locker whose connections are made by dial.
func (s *Service) Through(t conformance.T, dial zkDial, addrs []string, opts ...zkbackend.Option) locker.Locker {
	t.Helper()
	opts = slices.Concat([]zkbackend.Option{
		zkbackend.WithDialer(dial), zkbackend.WithDigest(zkUser, zkPassword), zkbackend.WithChroot(zkRoot),
	}, s.options, opts)
	l, err := zkbackend.New(t.Context(), addrs, opts...)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	return l
}

type zkDial = itest.DialFunc

// linked makes a Locker whose connections use a separate network.
func (s *Service) linked(t conformance.T, opts ...zkbackend.Option) (locker.Locker, *proxy.Network) {
	t.Helper()
	return s.linkedTo(t, s.Addrs(), opts...)
}

func (s *Service) linkedTo(t conformance.T, addrs []string, opts ...zkbackend.Option) (locker.Locker, *proxy.Network) {
	t.Helper()
	network := proxy.Start(t)
	return s.Through(t, network.Dial, addrs, opts...), network
}

// at returns the service's URL with another chroot.
func (s *Service) at(root string) string {
	return itest.Changed(s.URL, func(u *url.URL) { u.Path = root })
}

// badURLs returns URLs of the service that contain a mistake.
func (s *Service) badURLs(t conformance.T) map[string]string {
	t.Helper()
	free, err := itest.FreePorts(1)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return map[string]string{
		"host":     itest.Changed(s.URL, func(u *url.URL) { u.Host = "no-such-host.invalid" }),
		"port":     itest.Changed(s.URL, func(u *url.URL) { u.Host = itest.LocalAddr(free[0]) }),
		"password": itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword(zkUser, "open-sesame") }),
		"user":     itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword("nobody", zkPassword) }),
		"no user":  itest.Changed(s.URL, func(u *url.URL) { u.User = nil }),
		"chroot":   s.at("/zookeeper"),
		"TTL":      s.with("ttl", "10m"),
	}
}

func (s *Service) with(name, value string) string {
	return itest.Changed(s.URL, func(u *url.URL) {
		query := u.Query()
		query.Set(name, value)
		u.RawQuery = query.Encode()
	})
}

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
func (s *Service) walk(path string, visit func(path string, stat *zk.Stat) error) error {
	names, stat, err := s.admin.Children(path)
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
	return visit(path, stat)
}

// prefixed opens a Locker with a root of its own. A root stays.
func (s *Service) prefixed(t conformance.T, root string) locker.Locker {
	t.Helper()
	s.roots[root] = true
	return itest.OpenURL(t, s.at(root))
}

// residue lists all nodes, except roots and the empty nodes of locks. The servers remove an empty
// node of a lock if it was ever used.
func (s *Service) residue(t conformance.T) string {
	t.Helper()
	const container = math.MinInt64
	var left []string
	itest.Must(t, func(ctx context.Context) error {
		return s.ask(ctx, func() error {
			left = nil
			if _, err := s.admin.Sync("/"); err != nil {
				return err
			}
			return s.walk("/", func(path string, stat *zk.Stat) error {
				isRemoved := stat.EphemeralOwner == container && stat.NumChildren == 0 && stat.Cversion > 0
				if isRoot := strings.Count(path, "/") == 1 || s.roots[path]; !isRoot && !isRemoved {
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
			return s.walk("/", func(path string, _ *zk.Stat) error {
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

// zkCounter counts the requests of Lockers about nodes. It doesn't count requests that keep
// sessions alive: connecting, pings, reads of the root, and watches that are set again.
type zkCounter struct{ n atomic.Int64 }

func (c *zkCounter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &zkCountedConn{Conn: conn, counter: c}, nil
}

type zkCountedConn struct {
	net.Conn
	counter   *zkCounter
	connected bool
}

// Write gets one packet, or several that are written together: length, number, operation, and
// usually a path.
func (c *zkCountedConn) Write(data []byte) (int, error) {
	const create, exists, ping, createContainer = 1, 3, 11, 19
	const existsRoot = 4 + 4 + 4 + 4 + 1 + 1 // the size of that packet
	for rest := data; len(rest) >= 12; {
		size := 4 + int(binary.BigEndian.Uint32(rest))
		op := int32(binary.BigEndian.Uint32(rest[8:]))
		if c.connected && op >= create && op <= createContainer && op != ping && (op != exists || size != existsRoot) {
			c.counter.n.Add(1)
		}
		c.connected = true
		rest = rest[min(size, len(rest)):]
	}
	return c.Conn.Write(data)
}

//go:build unix

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// clusters are for tests that run in parallel. Each test has a cluster of its own: it may kill the
// cluster, and count everything that happens there.
var clusters = itest.LazyPool("etcd", Start)

// Cluster is the first cluster.
func Cluster(t *testing.T) *Service { return clusters(t).First }

func (s *Service) hooks(t conformance.T) conformance.Hooks {
	t.Helper()
	return conformance.Hooks{
		Linked:    s.linked,
		Forgetful: s.forgetful,
		Process:   itest.StartHolder(s.URL),
		Skewed:    itest.StartSkewed(s.URL),
		Pause:     s.pause,
		Resume:    s.resume,
		Down:      s.down,
		Up:        s.up,
		Restart:   s.restart,
		Wipe:      s.wipe,
		Failover:  s.failover,
		Remove:    s.remove,
		Requests:  s.requests,
		Waiters:   s.Waiters,
		Residue:   s.residue,
		Prefixed:  func(t conformance.T, prefix string) locker.Locker { return itest.OpenURL(t, s.at(etcdPrefix+prefix)) },
		URL:       s.URL,
		BadURLs:   s.badURLs(t),
		Secrets:   []string{Password, "open-sesame"},
	}
}

func (s *Service) Open(t conformance.T) locker.Locker { return itest.OpenURL(t, s.URL) }

// at returns the service's URL with another prefix.
func (s *Service) at(prefix string) string {
	return s.With("prefix", prefix)
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
		"password": itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword(etcdUser, "open-sesame") }),
		"user":     itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword("nobody", Password) }),
		"no user":  itest.Changed(s.URL, func(u *url.URL) { u.User = nil }),
		"TLS":      itest.Changed(s.URL, func(u *url.URL) { u.Scheme = "etcds" }),
		"prefix":   s.at("elsewhere"), // where the user may not write
	}
}

// linked gives the Locker a client whose connections go through a network of its own.
func (s *Service) linked(t conformance.T) (locker.Locker, conformance.Link) {
	t.Helper()
	l, network := s.proxied(t)
	return l, network
}

// forgetful opens a Locker by URL. The client of linked has no pings, so it wouldn't notice that its
// connections are silent: see docs/etcd.md.
func (s *Service) forgetful(t conformance.T) (locker.Locker, conformance.ForgetfulLink) {
	t.Helper()
	network := proxy.Start(t)
	var addrs []string
	for _, endpoint := range s.Config.Endpoints {
		addr, err := network.Forward(endpoint)
		if err != nil {
			t.Fatalf("Forward = %v", err)
		}
		addrs = append(addrs, addr)
	}
	return itest.OpenURL(t, itest.Changed(s.URL, func(u *url.URL) { u.Host = strings.Join(addrs, ",") })), network
}

func (s *Service) proxied(t conformance.T) (locker.Locker, *proxy.Network) {
	t.Helper()
	config, network := s.configThrough(t, s.Config.Endpoints)
	return NewLocker(t, config), network
}

// etcdDir is the prefix of the keys of all holders and waiters, as docs/etcd.md documents it.
func etcdDir(name string) string {
	return etcdPrefix + strings.NewReplacer("%", "%25", "/", "%2F").Replace(name) + "/"
}

// queue lists the keys of a lock: the holder's, then the waiters'.
func (s *Service) queue(ctx context.Context, name string) (keys []string, err error) {
	got, err := s.Members[0].admin.Get(ctx, etcdDir(name), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, err
	}
	for _, kv := range got.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys, nil
}

func (s *Service) Waiters(t conformance.T, name string) (n int) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		keys, err := s.queue(ctx, name)
		n = max(len(keys)-1, 0)
		return err
	})
	return n
}

// remove deletes the holder's key.
func (s *Service) remove(t conformance.T, name string) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		keys, err := s.queue(ctx, name)
		if err == nil && len(keys) == 0 {
			err = fmt.Errorf("nobody holds %q", name)
		}
		if err != nil {
			return err
		}
		_, err = s.Members[0].admin.Delete(ctx, keys[0])
		return err
	})
}

// etcdGuards is the prefix of keys that stop late requests. They may remain as long as the session
// that they are attached to.
const etcdGuards = etcdPrefix + "%guard/"

// residue lists all keys that exist, whatever their names.
func (s *Service) residue(t conformance.T) string {
	t.Helper()
	var left []string
	itest.Must(t, func(ctx context.Context) error {
		got, err := s.Members[0].admin.Get(ctx, "", clientv3.WithFromKey(), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			left = append(left, string(kv.Key))
		}
		return nil
	})
	left = slices.DeleteFunc(left, func(key string) bool { return strings.HasPrefix(key, etcdGuards) })
	return strings.Join(left, ", ")
}

// leases lists all etcd leases that exist.
func (s *Service) leases(t conformance.T) (ids []clientv3.LeaseID) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		list, err := s.Members[0].admin.Leases(ctx)
		if err != nil {
			return err
		}
		for _, lease := range list.Leases {
			ids = append(ids, lease.ID)
		}
		return nil
	})
	return ids
}

// flush removes all keys and sessions.
func (s *Service) flush(t conformance.T) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		_, err := s.Members[0].admin.Delete(ctx, "", clientv3.WithFromKey())
		return err
	})
	for _, id := range s.leases(t) {
		itest.Must(t, func(ctx context.Context) error {
			_, err := s.Members[0].admin.Revoke(ctx, id)
			if errors.Is(err, rpctypes.ErrLeaseNotFound) { // it has ended by itself
				err = nil
			}
			return err
		})
	}
}

// With returns the service's URL with a parameter.
func (s *Service) With(name, value string) string {
	return itest.Changed(s.URL, func(u *url.URL) {
		query := u.Query()
		query.Set(name, value)
		u.RawQuery = query.Encode()
	})
}

//go:build unix

package integration

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
	"github.com/fencedlock/locker/integration/proxy"
)

var etcdCluster = lazily("etcd", startEtcd)

// etcdHarness makes the suite's harness of clusters like that of a service. Each case has one for itself.
func etcdHarness(service func(*testing.T) *etcdService) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		clusters := service(t).clusters()
		return conformance.Harness{
			TTL:    etcdTTL,
			Strict: true,
			Pack:   clusters.cases((*etcdService).pack),
			Wrap:   sideBySide,
			Setup: func(t conformance.T, h *conformance.Harness) {
				s := clusters.first
				if ofCase(t) {
					s = clusters.take(t)
				}
				s.flush(t) // what a case that failed has left is not the next one's
				h.Open, h.Hooks = s.open, s.hooks(t)
			},
		}
	}
}

func (s *etcdService) hooks(t conformance.T) conformance.Hooks {
	t.Helper()
	return conformance.Hooks{
		Linked:   s.linked,
		Process:  startHolder(s.url),
		Pause:    s.pause,
		Resume:   s.resume,
		Down:     s.down,
		Up:       s.up,
		Restart:  s.restart,
		Wipe:     s.wipe,
		Failover: s.failover,
		Remove:   s.remove,
		Requests: s.requests,
		Waiters:  s.waiters,
		Residue:  s.residue,
		Prefixed: func(t conformance.T, prefix string) locker.Locker { return openURL(t, s.at(etcdPrefix+prefix)) },
		URL:      s.url,
		BadURLs:  s.badURLs(t),
		Secrets:  []string{etcdPassword, "open-sesame"},
	}
}

func (s *etcdService) open(t conformance.T) locker.Locker { return openURL(t, s.url) }

// at is the service's URL with another prefix.
func (s *etcdService) at(prefix string) string {
	return changed(s.url, func(u *url.URL) { u.Path = "/" + prefix })
}

// badURLs are mistakes in the service's URL.
func (s *etcdService) badURLs(t conformance.T) map[string]string {
	t.Helper()
	free, err := freePorts(1)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return map[string]string{
		"host":     changed(s.url, func(u *url.URL) { u.Host = "no-such-host.invalid" }),
		"port":     changed(s.url, func(u *url.URL) { u.Host = local(free[0]) }),
		"password": changed(s.url, func(u *url.URL) { u.User = url.UserPassword(etcdUser, "open-sesame") }),
		"user":     changed(s.url, func(u *url.URL) { u.User = url.UserPassword("nobody", etcdPassword) }),
		"no user":  changed(s.url, func(u *url.URL) { u.User = nil }),
		"TLS":      changed(s.url, func(u *url.URL) { u.Scheme = "etcds" }),
		"prefix":   s.at("elsewhere"), // where the user may not write
	}
}

// linked gives the Locker a client whose connections go through a network of its own.
func (s *etcdService) linked(t conformance.T) (locker.Locker, conformance.Link) {
	t.Helper()
	l, network := s.proxied(t)
	return l, network
}

func (s *etcdService) proxied(t conformance.T) (locker.Locker, *proxy.Network) {
	t.Helper()
	config, network := s.configThrough(t, s.config.Endpoints)
	return newEtcdLocker(t, config, s.opts...), network
}

// etcdDir is what docs/etcd.md says that the keys of all who have or want a lock begin with.
func etcdDir(name string) string {
	return etcdPrefix + strings.NewReplacer("%", "%25", "/", "%2F").Replace(name) + "/"
}

// queue lists the keys of a lock: the holder's, then the waiters'.
func (s *etcdService) queue(ctx context.Context, name string) (keys []string, err error) {
	got, err := s.members[0].admin.Get(ctx, etcdDir(name), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, err
	}
	for _, kv := range got.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys, nil
}

func (s *etcdService) waiters(t conformance.T, name string) (n int) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		keys, err := s.queue(ctx, name)
		n = max(len(keys)-1, 0)
		return err
	})
	return n
}

// remove deletes the holder's key.
func (s *etcdService) remove(t conformance.T, name string) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		keys, err := s.queue(ctx, name)
		if err == nil && len(keys) == 0 {
			err = fmt.Errorf("nobody holds %q", name)
		}
		if err != nil {
			return err
		}
		_, err = s.members[0].admin.Delete(ctx, keys[0])
		return err
	})
}

// etcdGuards is what keys begin with that may stay as long as the session that they hang on: they stop late requests.
const etcdGuards = etcdPrefix + "%guard/"

// residue lists all keys there are, whatever they are called.
func (s *etcdService) residue(t conformance.T) string {
	t.Helper()
	var left []string
	must(t, func(ctx context.Context) error {
		got, err := s.members[0].admin.Get(ctx, "", clientv3.WithFromKey(), clientv3.WithKeysOnly())
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

// leases lists the etcd leases there are.
func (s *etcdService) leases(t conformance.T) (ids []clientv3.LeaseID) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		list, err := s.members[0].admin.Leases(ctx)
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
func (s *etcdService) flush(t conformance.T) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		_, err := s.members[0].admin.Delete(ctx, "", clientv3.WithFromKey())
		return err
	})
	for _, id := range s.leases(t) {
		must(t, func(ctx context.Context) error {
			_, err := s.members[0].admin.Revoke(ctx, id)
			if errors.Is(err, rpctypes.ErrLeaseNotFound) { // it has ended by itself
				err = nil
			}
			return err
		})
	}
}

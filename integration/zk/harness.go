//go:build unix

package zk

import (
	"net/url"
	"slices"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/zkbackend"
)

// ensembles are for tests that run in parallel.
var ensembles = itest.LazyPool("zookeeper", startZk)

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

// prefixed opens a Locker with a root of its own. A root stays.
func (s *Service) prefixed(t conformance.T, root string) locker.Locker {
	t.Helper()
	s.roots[root] = true
	return itest.OpenURL(t, s.at(root))
}

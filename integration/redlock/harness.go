//go:build unix

package redlock

import (
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
	"github.com/fencedlock/locker/redlockbackend"
)

// services, each of five servers, are for tests that run in parallel.
var services = itest.LazyPool("redis", startRedlock)

// Servers is the first service.
func Servers(t *testing.T) *Service { return services(t).First }

// prefixed opens a Locker on a part of the servers' memory that was never used.
func (s *Service) prefixed(t conformance.T, prefix string) locker.Locker {
	t.Helper()
	return itest.OpenURL(t, s.with("prefix", prefix, "new_cluster", "true"))
}

// badURLs returns URLs of the service that contain a mistake.
func (s *Service) badURLs(t conformance.T) map[string]string {
	t.Helper()
	n := len(s.Nodes)
	free, err := itest.FreePorts(n)
	if err != nil {
		t.Fatalf("%v", err)
	}
	hosts := func(host func(i int) string) func(*url.URL) {
		return func(u *url.URL) {
			var list []string
			for i := range n {
				list = append(list, host(i))
			}
			u.Host = strings.Join(list, ",")
		}
	}
	return map[string]string{
		"host":        itest.Changed(s.URL, hosts(func(i int) string { return "no-such-host-" + strconv.Itoa(i) + ".invalid:6379" })),
		"port":        itest.Changed(s.URL, hosts(func(i int) string { return itest.LocalAddr(free[i]) })),
		"password":    itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword("", "open-sesame") }),
		"user":        itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword("nobody", redistest.Password) }),
		"TLS":         itest.Changed(s.URL, func(u *url.URL) { u.Scheme = "redlocks" }),
		"database":    s.with("db", "99"),
		"number":      itest.Changed(s.URL, hosts(func(i int) string { return s.Nodes[i-i%2].Addr })), // one is there twice
		"longest TTL": s.with("max_ttl", (2 * LongestTTL).String()),
	}
}

// linked gives the Locker clients whose connections go through a network of its own.
func (s *Service) linked(t conformance.T) (locker.Locker, conformance.Link) {
	t.Helper()
	network := proxy.Start(t)
	return s.Dialled(t, network.Dial, LongestTTL), network
}

// linkedByURL is linked with clients that are the Locker's own.
func (s *Service) linkedByURL(t conformance.T) (locker.Locker, conformance.ForgetfulLink) {
	t.Helper()
	network := proxy.Start(t)
	var addrs []string
	for _, n := range s.Nodes {
		addr, err := network.Forward(n.Addr)
		if err != nil {
			t.Fatalf("Forward = %v", err)
		}
		addrs = append(addrs, addr)
	}
	through := itest.Changed(s.URL, func(u *url.URL) { u.Host = strings.Join(addrs, ",") })
	return itest.OpenURL(t, through), network
}

// Dialled opens a Locker whose connections are made by dial. Its longest TTL must be the one of the
// service's URL.
func (s *Service) Dialled(t conformance.T, dial itest.DialFunc, longest time.Duration) locker.Locker {
	t.Helper()
	var clients closers
	var servers []*redis.Client
	for _, n := range s.Nodes {
		client := redis.NewClient(&redis.Options{Addr: n.Addr, Password: redistest.Password, Dialer: dial})
		clients, servers = append(clients, client), append(servers, client)
	}
	l, err := redlockbackend.New(t.Context(), servers, redlockbackend.WithDefaultTTL(LongestTTL), redlockbackend.WithMaxTTL(longest))
	if err != nil {
		_ = clients.Close()
		t.Fatalf("New = %v", err)
	}
	return itest.WithClient{Locker: l, Client: clients}
}

// closers are closed together.
type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, one := range c {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

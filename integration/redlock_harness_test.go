//go:build unix

package integration

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
	"github.com/fencedlock/locker/integration/proxy"
	"github.com/fencedlock/locker/redlockbackend"
)

var redlockServers = lazily("redis", startRedlock)

// redlockHarness makes the suite's harness of a service.
func redlockHarness(service func(*testing.T) *redlockService) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		s := service(t)
		return conformance.Harness{
			Open:   s.open,
			TTL:    shortTTL,
			Strict: true,
			Pack:   s.pack(),
			Setup: func(t conformance.T, _ *conformance.Harness) {
				s.clear(t) // what a case that failed has left is not the next one's
			},
			Hooks: conformance.Hooks{
				Linked:   s.linked,
				Process:  startHolder(s.url),
				Pause:    s.pause,
				Resume:   s.resume,
				Down:     s.down,
				Up:       s.up,
				Restart:  s.restart,
				Wipe:     s.wipe,
				Remove:   s.remove,
				Requests: s.requests,
				Waiters:  s.waiters,
				Residue:  s.residue,
				Prefixed: s.prefixed,
				Narrow:   func(t conformance.T) locker.Locker { return openURL(t, s.with("pool_size", "1")) },
				URL:      s.url,
				BadURLs:  s.badURLs(t),
				Secrets:  []string{redisPassword, "open-sesame"},
				Absent:   map[conformance.Hook]string{conformance.HookFailover: "no server has a replica"},
			},
		}
	}
}

// prefixed opens a Locker on a part of the servers' memory that was never used.
func (s *redlockService) prefixed(t conformance.T, prefix string) locker.Locker {
	t.Helper()
	return openURL(t, s.with("prefix", prefix, "new_cluster", "true"))
}

// badURLs are mistakes in the service's URL.
func (s *redlockService) badURLs(t *testing.T) map[string]string {
	n := len(s.nodes)
	free, err := freePorts(n)
	if err != nil {
		t.Fatal(err)
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
		"host":        changed(s.url, hosts(func(i int) string { return "no-such-host-" + strconv.Itoa(i) + ".invalid:6379" })),
		"port":        changed(s.url, hosts(func(i int) string { return local(free[i]) })),
		"password":    changed(s.url, func(u *url.URL) { u.User = url.UserPassword("", "open-sesame") }),
		"user":        changed(s.url, func(u *url.URL) { u.User = url.UserPassword("nobody", redisPassword) }),
		"TLS":         changed(s.url, func(u *url.URL) { u.Scheme = "redlocks" }),
		"database":    s.with("db", "99"),
		"number":      changed(s.url, hosts(func(i int) string { return s.nodes[i-i%2].addr })), // one is there twice
		"longest TTL": s.with("max_ttl", (2 * redlockTTL).String()),
	}
}

// linked gives the Locker clients whose connections go through a network of its own.
func (s *redlockService) linked(t conformance.T) (locker.Locker, conformance.Link) {
	t.Helper()
	network, err := proxy.New()
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(network.Close)
	return s.dialled(t, network.Dial, redlockTTL), network
}

// dialled opens a Locker whose connections are made by dial. Its longest TTL must be that of the service's URL.
func (s *redlockService) dialled(t conformance.T, dial dialFunc, longest time.Duration) locker.Locker {
	t.Helper()
	var clients closers
	var servers []*redis.Client
	for _, n := range s.nodes {
		client := redis.NewClient(&redis.Options{Addr: n.addr, Password: redisPassword, Dialer: dial})
		clients, servers = append(clients, client), append(servers, client)
	}
	l, err := redlockbackend.New(t.Context(), servers, redlockbackend.WithDefaultTTL(redlockTTL), redlockbackend.WithMaxTTL(longest))
	if err != nil {
		_ = clients.Close()
		t.Fatalf("New = %v", err)
	}
	return withClient{l, clients}
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

//go:build unix

package integration

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/redlockbackend"
)

// databasePack is servers whose other databases are used as well.
func (s *redlockService) databasePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I32", Name: "swapped-longest-ttl-doesn't-count", Run: s.swappedLongestTTL,
			Why: "after SWAPDB a note is here that says the longest TTL of another database; a server must not go by it, nor refuse everybody"},
		{ID: "I33", Name: "connection-that-selects-another-database", Run: s.selected,
			Why: "who shares the client may select another database; the release would find nothing there, and the note of that database be written over"},
	}
}

func (s *redlockService) swappedLongestTTL(t conformance.T, _ *conformance.Harness) {
	const here, other = "4", "5"
	prefix := lockName(t) + ":"
	u := s.with("prefix", prefix, "db", here, "ttl", "1s", "max_ttl", "2s")
	waive := func(u string) { must(t, func(ctx context.Context) error { return s.waive(ctx, u) }) }
	waive(u)
	waive(s.with("prefix", prefix, "db", other, "ttl", "1s", "max_ttl", "7s"))
	before := keep(t, openURL(t, u))
	free(t, 0, before, "a")

	swap := func() {
		t.Helper()
		must(t, func(ctx context.Context) error {
			return s.each(ctx, func(ctx context.Context, n *redisNode) error { return n.admin.Do(ctx, "swapdb", here, other).Err() })
		})
	}
	swap()
	after := keep(t, openURL(t, u)) // before anybody has asked the servers
	swap()
	swap()
	free(t, soon, before, "a")
	free(t, soon, after, "a")
}

func (s *redlockService) selected(t conformance.T, _ *conformance.Harness) {
	var clients closers
	var servers []*redis.Client
	for _, n := range s.nodes {
		client := redis.NewClient(&redis.Options{Addr: n.addr, Password: redisPassword, PoolSize: 1, ContextTimeoutEnabled: true})
		clients, servers = append(clients, client), append(servers, client)
	}
	made, err := redlockbackend.New(t.Context(), servers, redlockbackend.WithDefaultTTL(redlockTTL), redlockbackend.WithMaxTTL(redlockTTL))
	if err != nil {
		_ = clients.Close()
		t.Fatalf("New = %v", err)
	}
	shared, own, name := keep(t, locker.Locker(withClient{made, clients})), keep(t, s.open(t)), lockName(t)
	held := acquire(t, own, name+"-held")
	lease := acquire(t, shared, name, locker.WithoutRenewal())
	must(t, func(ctx context.Context) error {
		for _, c := range servers {
			if err := c.Do(ctx, "select", 6).Err(); err != nil { // its only connection
				return err
			}
		}
		return nil
	})
	release(t, lease)
	free(t, 0, own, name)
	free(t, 0, shared, name)
	if err := held.Renew(t.Context()); err != nil {
		t.Errorf("Renew of a lease of another Locker = %v, want nil", err)
	}
	release(t, held)
}

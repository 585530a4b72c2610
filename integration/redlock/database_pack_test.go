//go:build unix

package redlock

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
	"github.com/fencedlock/locker/redlockbackend"
)

// databasePack tests servers whose other databases are used as well.
func (s *Service) databasePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I32", Name: "swapped-longest-ttl-doesn't-count", Run: s.swappedLongestTTL,
			Why: "after SWAPDB the database contains a note with the longest TTL of another " +
				"database; a server must not use this note, and must not refuse every request"},
		{ID: "I33", Name: "connection-that-selects-another-database", Run: s.selected,
			Why: "a program that shares the client may select another database; a release would " +
				"find nothing there, and the note of that database would be overwritten"},
	}
}

func (s *Service) swappedLongestTTL(t conformance.T, _ *conformance.Harness) {
	const here, other = "4", "5"
	prefix := step.LockName(t) + ":"
	u := s.with("prefix", prefix, "db", here, "ttl", "1s", "max_ttl", "2s")
	waive := func(u string) { itest.Must(t, func(ctx context.Context) error { return s.waive(ctx, u) }) }
	waive(u)
	waive(s.with("prefix", prefix, "db", other, "ttl", "1s", "max_ttl", "7s"))
	before := step.CloseAtEnd(t, itest.OpenURL(t, u))
	step.FreeWithin(t, 0, before, "a")

	swap := func() {
		t.Helper()
		itest.Must(t, func(ctx context.Context) error {
			return s.each(ctx, func(ctx context.Context, n *redistest.Node) error {
				return n.Admin.Do(ctx, "swapdb", here, other).Err()
			})
		})
	}
	swap()
	after := step.CloseAtEnd(t, itest.OpenURL(t, u)) // before anybody has asked the servers
	swap()
	swap()
	step.FreeWithin(t, itest.ShortWait, before, "a")
	step.FreeWithin(t, itest.ShortWait, after, "a")
}

func (s *Service) selected(t conformance.T, _ *conformance.Harness) {
	var clients closers
	var servers []*redis.Client
	for _, n := range s.Nodes {
		client := redis.NewClient(&redis.Options{Addr: n.Addr, Password: redistest.Password, PoolSize: 1, ContextTimeoutEnabled: true})
		clients, servers = append(clients, client), append(servers, client)
	}
	elsewhere := func() {
		itest.Must(t, func(ctx context.Context) error {
			for _, c := range servers {
				if err := c.Do(ctx, "select", 6).Err(); err != nil { // its only connection
					return err
				}
			}
			return nil
		})
	}
	elsewhere()
	made, err := redlockbackend.New(t.Context(), servers, redlockbackend.WithDefaultTTL(LongestTTL), redlockbackend.WithMaxTTL(LongestTTL))
	if err != nil {
		_ = clients.Close()
		t.Fatalf("New = %v", err)
	}
	shared, own, name := step.CloseAtEnd(t, locker.Locker(itest.WithClient{Locker: made, Client: clients})), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	held := step.Acquire(t, own, name+"-held")
	lease := step.Acquire(t, shared, name, locker.WithoutRenewal())
	elsewhere()
	step.Release(t, lease)
	step.FreeWithin(t, 0, own, name)
	step.FreeWithin(t, 0, shared, name)
	if err := held.Renew(t.Context()); err != nil {
		t.Errorf("Renew of a lease of another Locker = %v, want nil", err)
	}
	step.Release(t, held)
}

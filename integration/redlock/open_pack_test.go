//go:build unix

package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
	"github.com/fencedlock/locker/redlockbackend"
)

// openPack tests the options of a Locker, and what it finds on the servers, when it is opened.
func (s *Service) openPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I7", Name: "one-longest-ttl-for-all", Run: s.longestTTL,
			Why: "a server that waits for the longest TTL must know that TTL; otherwise a " +
				"Locker with longer leases could lose them"},
		{ID: "I8", Name: "mistakes-in-the-url-are-named", Run: s.mistakes,
			Why: "a user that reads the error must know what to correct, and on which server"},
		{ID: "I9", Name: "servers-are-independent", Run: s.sameServer,
			Why: "a server that is listed under two names would have two votes"},
		{ID: "I13", Name: "unfit-server-is-refused-at-open", Run: s.unfit,
			Why: "the vote of a server that evicts keys when its memory is short, or that is a " +
				"replica, can't be trusted"},
		{ID: "I31", Name: "another-database-is-another-memory", Run: s.anotherDatabase,
			Why: "a note that a server keeps for one database must not count in another " +
				"database, and must not replace the note of another database"},
	}
}

func (s *Service) longestTTL(t conformance.T, _ *conformance.Harness) {
	itest.RefusedAtOpen(t, s.with("max_ttl", (2*LongestTTL).String()), "longest TTL", LongestTTL.String(), "max_ttl")
	l := step.CloseAtEnd(t, s.Open(t))
	if _, err := locker.TryAcquire(t.Context(), l, step.LockName(t), locker.WithTTL(LongestTTL+1)); !errors.Is(err, locker.ErrOption) {
		t.Errorf("TryAcquire with more than the longest TTL = %v, want ErrOption", err)
	}

	// Servers that got another longest TTL in the meantime grant nothing.
	u := s.with("prefix", step.LockName(t)+":", "max_ttl", "10s")
	itest.Must(t, func(ctx context.Context) error { return s.waive(ctx, u) })
	old := step.CloseAtEnd(t, itest.OpenURL(t, u))
	step.FreeWithin(t, 0, old, "a")
	other := itest.Changed(u, setParam("max_ttl", "20s"))
	s.forget(t, u, s.Nodes[2:3])
	itest.RefusedAtOpen(t, other, "longest TTL", "10s") // and leaves nothing on the server that has forgotten it
	step.CloseAtEnd(t, itest.OpenURL(t, u))
	s.forget(t, u, s.Nodes)
	itest.Must(t, func(ctx context.Context) error { return s.waive(ctx, other) })
	if err := step.WantFailure(t, itest.ShortWait, old, "a"); !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), "20s") {
		t.Errorf("TryAcquire = %v, want ErrOption, and the longest TTL of the servers", err)
	}
	step.FreeWithin(t, 0, step.CloseAtEnd(t, itest.OpenURL(t, other)), "a")
}

func (s *Service) mistakes(t conformance.T, h *conformance.Harness) {
	itest.RefusedAtOpen(t, h.BadURLs["port"], "connection refused", "0 of 5 servers can be reached")
	itest.RefusedAtOpen(t, h.BadURLs["password"], "WRONGPASS")
	itest.RefusedAtOpen(t, h.BadURLs["user"], "WRONGPASS")
	itest.RefusedAtOpen(t, h.BadURLs["database"], "DB index")
	itest.RefusedAtOpen(t, h.BadURLs["TLS"], "redlock://")
	itest.RefusedAtOpen(t, h.BadURLs["number"], "twice")

	// Each server with a URL of its own, and a mistake in one of them.
	var urls, wrong []string
	for i, n := range s.Nodes {
		urls = append(urls, "redis://:"+redistest.Password+"@"+n.Addr)
		if i == 3 {
			wrong = append(wrong, "redis://:open-sesame@"+n.Addr)
		} else {
			wrong = append(wrong, urls[i])
		}
	}
	step.FreeWithin(t, 0, step.CloseAtEnd(t, itest.OpenURL(t, serversURL(urls))), step.LockName(t))
	refusedServers(t, wrong, "WRONGPASS", s.Nodes[3].Addr)
}

func (s *Service) sameServer(t conformance.T, _ *conformance.Harness) {
	urls := []string{"redis://:" + redistest.Password + "@" + strings.Replace(s.Nodes[0].Addr, "127.0.0.1", "localhost", 1)}
	for _, n := range s.Nodes[:2] {
		urls = append(urls, "redis://:"+redistest.Password+"@"+n.Addr)
	}
	refusedServers(t, urls, "are one server", s.Nodes[0].Addr)
}

func (s *Service) anotherDatabase(t conformance.T, _ *conformance.Harness) {
	const here, other = "0", "3"
	u := s.with("prefix", step.LockName(t)+":", "new_cluster", "true")
	first := step.CloseAtEnd(t, itest.OpenURL(t, u))
	second := step.CloseAtEnd(t, itest.OpenURL(t, itest.Changed(u, setParam("db", other))))
	lease := step.Acquire(t, first, "a")
	step.FreeWithin(t, 0, second, "a")
	notes := func(db string) (notes []string) {
		t.Helper()
		itest.Must(t, func(ctx context.Context) error {
			notes = nil
			return s.each(ctx, func(ctx context.Context, n *redistest.Node) error {
				pipe := n.Admin.TxPipeline()
				pipe.Do(ctx, "select", db)
				note := pipe.Get(ctx, prefixOf(u)+"memory")
				pipe.Do(ctx, "select", 0)
				_, err := pipe.Exec(ctx)
				notes = append(notes, note.Val())
				return err
			})
		})
		return notes
	}
	for _, db := range []string{here, other} {
		for _, note := range notes(db) {
			if words := strings.Fields(note); len(words) != 4 || words[1] != db {
				t.Errorf("in database %s there is the note %q, want four words, the second of them the database", db, note)
			}
		}
	}

	// A loss in the one is none of the other.
	before := notes(here)
	itest.Must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redistest.Node) error {
			pipe := n.Admin.TxPipeline()
			pipe.Do(ctx, "select", other)
			pipe.FlushDB(ctx)
			pipe.Do(ctx, "select", 0)
			_, err := pipe.Exec(ctx)
			return err
		})
	})
	_ = step.WantFailure(t, itest.ShortWait, second, "a")
	if after := notes(here); !slices.Equal(after, before) {
		t.Errorf("the notes of database %s were %q, and are %q after a loss in another", here, before, after)
	}
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	step.Release(t, lease)
}

func (s *Service) unfit(t conformance.T, _ *conformance.Harness) {
	defer s.trust(t, s.Nodes)
	one := s.Nodes[2]
	do := func(args ...any) {
		t.Helper()
		itest.Must(t, func(ctx context.Context) error { return one.Admin.Do(ctx, args...).Err() })
	}
	t.Cleanup(func() { do("config", "set", "maxmemory-policy", "noeviction") })
	do("config", "set", "maxmemory-policy", "allkeys-lru")
	itest.RefusedAtOpen(t, s.URL, "allkeys-lru", one.Addr)
	step.FreeWithin(t, 0, step.CloseAtEnd(t, itest.OpenURL(t, s.with("allow_eviction", "true"))), step.LockName(t))
	do("config", "set", "maxmemory-policy", "noeviction")

	t.Cleanup(func() { do("replicaof", "no", "one") })
	do("replicaof", "127.0.0.1", "1")
	itest.RefusedAtOpen(t, s.URL, "replica", one.Addr)
	do("replicaof", "no", "one")

	const acl = "joe"
	t.Cleanup(func() { s.all(t, "acl", "deluser", acl) })
	s.all(t, "acl", "setuser", acl, "on", ">secret-of-joe", "~*", "&*", "+@all")
	u := itest.Changed(s.URL, setUser(acl, "secret-of-joe"))
	step.FreeWithin(t, 0, step.CloseAtEnd(t, itest.OpenURL(t, u)), step.LockName(t))
	for _, command := range []string{"zpopmin", "zrange", "publish", "info", "set", "time", "select", "subscribe", "eval"} {
		do("acl", "setuser", acl, "-"+command)
		itest.RefusedAtOpen(t, u, "permission", one.Addr)
		do("acl", "setuser", acl, "+"+command)
	}

	// The scripts get the number of their database as an argument, so it must be the one in the
	// client's options.
	var clients []*redis.Client
	for _, n := range s.Nodes {
		client := redis.NewClient(&redis.Options{Addr: n.Addr, Password: redistest.Password,
			OnConnect: func(ctx context.Context, conn *redis.Conn) error { return conn.Select(ctx, 3).Err() }})
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	if l, err := redlockbackend.New(t.Context(), clients, redlockbackend.WithMaxTTL(LongestTTL)); err == nil || !strings.Contains(err.Error(), "database 0") {
		if err == nil {
			_ = l.Close()
		}
		t.Errorf("New with clients that select another database when they connect = %v, want an error about the database", err)
	}
}

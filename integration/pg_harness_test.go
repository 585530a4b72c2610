//go:build unix

package integration

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// The services of a run.
var (
	pgStandalone = lazily("postgres", startPostgres)
	pgBouncer    = lazily("postgres", startPgBouncer)
	pgReplica    = lazily("postgres", startPgReplica)
)

// pgTTL is longer than elsewhere: three kinds of service are tested side by side, and answers were late for leases of that then.
const pgTTL = 3 * shortTTL / 2

// pgHarness makes the suite's harness of a service.
func pgHarness(service func(*testing.T) *pgService) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		s := service(t)
		h := conformance.Harness{
			Open:   s.open,
			TTL:    pgTTL,
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
				Remove:   s.remove,
				Requests: s.requests,
				Waiters:  s.waiters,
				Residue:  s.residue,
				Prefixed: func(t conformance.T, prefix string) locker.Locker { return openURL(t, s.with("prefix", prefix)) },
				Narrow:   s.narrow,
				URL:      s.url,
				BadURLs:  s.badURLs(t),
				Secrets:  []string{pgPassword, "open-sesame"},
				Absent: map[conformance.Hook]string{
					conformance.HookWipe: "tokens are part of the data, and Guarantees say so",
				},
			},
		}
		if s.failing {
			h.Failover = func(t conformance.T) { must(t, s.failover) }
		} else {
			h.Absent[conformance.HookFailover] = "the server has no replica"
		}
		return h
	}
}

func (s *pgService) open(t conformance.T) locker.Locker { return openURL(t, s.url) }

// with is the service's URL with one more parameter.
func (s *pgService) with(name, value string) string { return withParam(s.url, name, value) }

func withParam(rawURL, name, value string) string {
	return changed(rawURL, func(u *url.URL) {
		query := u.Query()
		query.Set(name, value)
		u.RawQuery = query.Encode()
	})
}

// badURLs are mistakes in the service's URL.
func (s *pgService) badURLs(t *testing.T) map[string]string {
	free, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string]string{
		"host":     changed(s.url, func(u *url.URL) { u.Host = "no-such-host.invalid:5432" }),
		"port":     changed(s.url, func(u *url.URL) { u.Host = local(free[0]) }),
		"password": changed(s.url, func(u *url.URL) { u.User = url.UserPassword(pgUser, "open-sesame") }),
		"user":     changed(s.url, func(u *url.URL) { u.User = url.UserPassword("nobody", pgPassword) }),
		"database": changed(s.url, func(u *url.URL) { u.Path = "/nowhere" }),
		"TLS":      s.with("sslmode", "require"),
	}
	if s.bouncer != nil {
		for _, database := range []string{transactionMode, statementMode} {
			bad[database] = changed(s.url, func(u *url.URL) { u.Path = "/" + database })
		}
	}
	return bad
}

// admin asks the server that takes writes for one value.
func admin[T any](t conformance.T, s *pgService, query string, args ...any) (value T) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		n, err := s.leader(ctx)
		if err == nil {
			value, err = pgValue[T](ctx, n, query, args...)
		}
		return err
	})
	return value
}

// exec has the superuser carry statements out on the server that takes writes.
func (s *pgService) exec(t conformance.T, statements ...string) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		n, err := s.leader(ctx)
		for _, statement := range statements {
			if err == nil {
				err = n.exec(ctx, statement)
			}
		}
		return err
	})
}

// clear ends sessions that somebody has left with a lock or in the middle of something.
func (s *pgService) clear(t conformance.T) {
	t.Helper()
	admin[int](t, s, `select count(pg_terminate_backend(pid)) from pg_stat_activity a where usename = $1
		and (state <> 'idle' or exists (select from pg_locks l where l.pid = a.pid and locktype = 'advisory'))`, pgUser)
}

// remove ends the session of a lock's holder.
func (s *pgService) remove(t conformance.T, name string) {
	t.Helper()
	if n := admin[int](t, s, "select count(pg_terminate_backend(pid)) from "+pgHeld+ofKey+"$1", pgKey(name)); n == 0 {
		t.Fatalf("nobody holds %q", name)
	}
}

// waiters counts the sessions whose lock statement is blocked.
func (s *pgService) waiters(t conformance.T, name string) int {
	t.Helper()
	return admin[int](t, s, "select count(*) from "+pgAwaited+ofKey+"$1", pgKey(name))
}

// requests counts the statements that the Lockers' role has sent; what those call is not tracked by default.
func (s *pgService) requests(t conformance.T) int64 {
	t.Helper()
	return admin[int64](t, s, `select coalesce(sum(calls), 0)::int8 from pg_stat_statements where userid = $1::regrole`, pgUser)
}

// residue lists advisory locks, sessions in the middle of something, and all that is stored besides what Lockers may store.
func (s *pgService) residue(t conformance.T) string {
	t.Helper()
	var left []string
	for what, query := range map[string]string{
		"advisory locks": `select coalesce(string_agg(format('%s %s/%s granted %s to %s', mode, classid, objid, granted, pid), ', '), '')
			from ` + ofLocks,
		"sessions": `select coalesce(string_agg(format('%s %s: %s', pid, state, query), ', '), '')
			from pg_stat_activity where usename = '` + pgUser + `' and state <> 'idle'`,
		"relations": `select coalesce(string_agg(c.oid::regclass::text, ', '), '')
			from pg_class c join pg_namespace n on n.oid = relnamespace
			where nspname not in ('pg_catalog', 'information_schema', 'pg_toast') and relname not like 'pg_stat_statements%' and relkind in ('r', 'S', 'v', 'm')
			and c.oid::regclass::text not in ('` + strings.Join(pgStored, "', '") + `')`,
	} {
		if found := admin[string](t, s, query); found != "" {
			left = append(left, what+": "+found)
		}
	}
	slices.Sort(left)
	return strings.Join(left, "; ")
}

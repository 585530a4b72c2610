//go:build unix

package pg

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// The services of a run, for tests that run in parallel.
var (
	standalones = itest.LazyPool("postgres", Start)
	bouncers    = itest.LazyPool("postgres", StartBouncer)
	replicated  = itest.LazyPool("postgres", startPgReplica)
)

// Standalone is the first server.
func Standalone(t *testing.T) *Service { return standalones(t).First }

// taken is a service that no other test uses meanwhile. A test that runs in parallel needs one.
func taken(t *testing.T) *Service {
	s := standalones(t).Take(t)
	s.clear(t)
	return s
}

// pgTTL is longer than for other services: several services are tested in parallel, and answers
// were too late for leases with ShortTTL.
const pgTTL = 3 * itest.ShortTTL / 2

func (s *Service) open(t conformance.T) locker.Locker { return itest.OpenURL(t, s.URL) }

// with returns the service's URL with one more parameter.
func (s *Service) with(name, value string) string { return withParam(s.URL, name, value) }

func withParam(rawURL, name, value string) string {
	return itest.Changed(rawURL, func(u *url.URL) {
		query := u.Query()
		query.Set(name, value)
		u.RawQuery = query.Encode()
	})
}

// badURLs returns URLs of the service that contain a mistake.
func (s *Service) badURLs(t conformance.T) map[string]string {
	t.Helper()
	free, err := itest.FreePorts(1)
	if err != nil {
		t.Fatalf("%v", err)
	}
	bad := map[string]string{
		"host":     itest.Changed(s.URL, func(u *url.URL) { u.Host = "no-such-host.invalid:5432" }),
		"port":     itest.Changed(s.URL, func(u *url.URL) { u.Host = itest.LocalAddr(free[0]) }),
		"password": itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword(pgUser, "open-sesame") }),
		"user":     itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword("nobody", pgPassword) }),
		"database": itest.Changed(s.URL, func(u *url.URL) { u.Path = "/nowhere" }),
		"TLS":      s.with("sslmode", "require"),
	}
	if s.bouncer != nil {
		for _, database := range []string{transactionMode, statementMode} {
			bad[database] = itest.Changed(s.URL, func(u *url.URL) { u.Path = "/" + database })
		}
	}
	return bad
}

// admin asks the server that accepts writes for one value.
func admin[T any](t conformance.T, s *Service, query string, args ...any) (value T) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		n, err := s.leader(ctx)
		if err == nil {
			value, err = pgValue[T](ctx, n, query, args...)
		}
		return err
	})
	return value
}

// exec executes statements as the superuser, on the server that accepts writes.
func (s *Service) exec(t conformance.T, statements ...string) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		n, err := s.leader(ctx)
		for _, statement := range statements {
			if err == nil {
				err = n.exec(ctx, statement)
			}
		}
		return err
	})
}

// clear ends sessions that were left with a lock or in the middle of a transaction.
func (s *Service) clear(t conformance.T) {
	t.Helper()
	admin[int](t, s, `select count(pg_terminate_backend(pid)) from pg_stat_activity a where usename = $1
		and (state <> 'idle' or exists (select from pg_locks l where l.pid = a.pid and locktype = 'advisory'))`, pgUser)
}

// remove ends the session of a lock's holder.
func (s *Service) remove(t conformance.T, name string) {
	t.Helper()
	if n := admin[int](t, s, "select count(pg_terminate_backend(pid)) from "+pgHeld+ofKey+"$1", pgKey(name)); n == 0 {
		t.Fatalf("nobody holds %q", name)
	}
}

// waiters counts the sessions whose lock statement is blocked.
func (s *Service) waiters(t conformance.T, name string) int {
	t.Helper()
	return admin[int](t, s, "select count(*) from "+pgAwaited+ofKey+"$1", pgKey(name))
}

// requests counts the statements that the Lockers' role has sent, and the values that it has taken
// from the sequence, for function calls are not in pg_stat_statements: each request for a lock takes
// a value. (Those that give locks back by function calls are not counted.) Statements inside
// functions are not tracked by default.
func (s *Service) requests(t conformance.T) int64 {
	t.Helper()
	return admin[int64](t, s, `select coalesce(sum(calls), 0)::int8 + (select last_value from `+pgSequence+`)
		from pg_stat_statements where userid = $1::regrole and query not like '%nextval%'`, pgUser)
}

// residue lists advisory locks, sessions in the middle of a transaction, and everything that is
// stored and that Lockers may not store.
func (s *Service) residue(t conformance.T) string {
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

func CutTarget(s *Service) *itest.CutTarget {
	servers := make(map[string]string)
	for _, n := range s.nodes {
		servers[itest.LocalAddr(n.port)] = n.ID
	}
	if s.bouncer != nil {
		servers[itest.LocalAddr(s.port)] = s.bouncer.ID
	}
	through := func(t conformance.T, dial itest.DialFunc) locker.Locker { return s.dialled(t, dial) }
	return &itest.CutTarget{Servers: servers, Open: s.open, Through: through, Waiters: s.waiters}
}

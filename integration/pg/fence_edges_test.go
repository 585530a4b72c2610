//go:build unix

package pg

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fencepg"
	"github.com/fencedlock/locker/fence/fencesql"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// A claim within a savepoint is refused: the rollback to it takes the claim back, and the
// transaction can go on to write.
func TestFencePgSavepoint(t *testing.T) {
	itest.NeedServers(t)
	for name, begin := range fenceWays(FenceURL(t, fencePostgres(t))) {
		t.Run(name, func(t *testing.T) {
			resource := step.LockName(t)
			for _, mark := range []string{"no mark", "a mark"} {
				tx := begin(t)
				if err := tx.exec("SAVEPOINT inner_one"); err != nil {
					t.Fatal(err)
				}
				if err := tx.claim(resource, 5); !errors.Is(err, fencepg.ErrSavepoint) || !errors.Is(err, fencesql.ErrSavepoint) || errors.Is(err, fence.ErrStale) {
					t.Errorf("%s: Claim within a savepoint = %v, want ErrSavepoint", mark, err)
				}
				for _, statement := range []string{"ROLLBACK TO inner_one", "RELEASE inner_one"} {
					if err := tx.exec(statement); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(tx.claim(resource, 5), tx.exec("SAVEPOINT later"), tx.exec("ROLLBACK TO later"), tx.exec("RELEASE later"), tx.claim(resource, 6)); err != nil {
					t.Errorf("%s: Claim after the savepoint = %v, want nil", mark, err)
				}
				if err := tx.commit(); err != nil {
					t.Fatal(err)
				}
				if err := claimed(t, begin, resource, 5); !errors.Is(err, fence.ErrStale) {
					t.Errorf("%s: Claim(5) after Claim(6) = %v, want ErrStale", mark, err)
				}
				if err := claimed(t, begin, resource, 6); err != nil {
					t.Errorf("Claim = %v", err)
				}
				resource += "x" // the second time there is a mark
				if err := claimed(t, begin, resource, 1); err != nil {
					t.Errorf("Claim = %v", err)
				}
			}
		})
	}
	t.Run("a nested transaction of pgx", func(t *testing.T) {
		pool, err := pgxpool.New(t.Context(), FenceURL(t, fencePostgres(t)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error { return fencepg.Claim(t.Context(), tx, step.LockName(t), 5) })
		})
		if !errors.Is(err, fencepg.ErrSavepoint) {
			t.Errorf("Claim = %v, want ErrSavepoint", err)
		}
	})
}

// The table of marks is the one of the schema that is named, whatever search_path says, and
// whatever a session has for itself.
func TestFencePgSchemas(t *testing.T) {
	itest.NeedServers(t)
	s := fencePostgres(t)
	url := FenceURL(t, s)
	for _, statement := range []string{`create schema if not exists "App's ""own"""`, fencepg.Migration(fencepg.WithSchema(`App's "own"`)), fencesql.Migration(fencesql.WithSchema(`App's "own"`))} {
		if err := s.nodes[0].exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for name, begin := range fenceWays(url) {
		t.Run(name, func(t *testing.T) {
			resource := step.LockName(t)
			if err := claimed(t, begin, resource, 900); err != nil {
				t.Fatal(err)
			}
			own := fencepg.WithSchema(`App's "own"`)
			for what, setup := range map[string][]string{
				"a schema that comes first": {`set search_path = "App's ""own""", public`},
				"a temporary table":         {"create temporary table locker_fence (resource text primary key, token bigint)"},
			} {
				tx := begin(t, setup...)
				if err := tx.claim(resource, 100); !errors.Is(err, fence.ErrStale) {
					t.Errorf("%s: Claim(100) after Claim(900) = %v, want ErrStale", what, err)
				}
				if err := tx.commit(); err != nil { // until then it keeps others waiting
					t.Errorf("Commit = %v", err)
				}
			}
			if err := claimed(t, begin, resource, 100, own); err != nil {
				t.Errorf("Claim(100) in another schema = %v, want nil: it has marks of its own", err)
			}
			if err := claimed(t, begin, resource, 99, own); !errors.Is(err, fence.ErrStale) {
				t.Errorf("Claim(99) after Claim(100) in another schema = %v, want ErrStale", err)
			}
		})
	}
}

// A holder that falls silent in its transaction keeps others waiting for as long as it said, and a
// stale one too.
func TestFencePgIdleLimit(t *testing.T) {
	itest.NeedServers(t)
	for name, begin := range fenceWays(FenceURL(t, fencePostgres(t))) {
		for _, token := range []locker.Token{7, 3} { // the second is stale
			t.Run(fmt.Sprint(name, " with token ", token), func(t *testing.T) {
				t.Parallel()
				const limit = time.Second
				resource := step.LockName(t)
				if err := claimed(t, begin, resource, 5); err != nil {
					t.Fatal(err)
				}
				silent := begin(t)
				if err := silent.claim(resource, token, fencepg.WithIdleLimit(limit)); err != nil && !errors.Is(err, fence.ErrStale) {
					t.Fatal(err)
				}
				began := time.Now()
				if err := claimed(t, begin, resource, 9); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < limit/2 || took > limit+itest.ShortWait {
					t.Errorf("the next claim took %v, want about %v", took, limit)
				}
				if err := silent.commit(); err == nil {
					t.Error("Commit of the silent one = nil")
				}
				if err := claimed(t, begin, resource, 8); !errors.Is(err, fence.ErrStale) {
					t.Errorf("Claim(8) after Claim(9) = %v, want ErrStale", err)
				}
			})
		}
	}
}

// What a claim sets is over with its transaction, and lowers nothing.
func TestFencePgSettings(t *testing.T) {
	itest.NeedServers(t)
	for name, begin := range fenceWays(FenceURL(t, fencePostgres(t))) {
		t.Run(name, func(t *testing.T) {
			for before, want := range map[string]string{"off": "on", "local": "local", "remote_write": "remote_write", "on": "on", "remote_apply": "remote_apply"} {
				tx := begin(t, "set synchronous_commit = "+before, "set idle_in_transaction_session_timeout = '1h'")
				if err := tx.claim(step.LockName(t), 5, fencepg.WithIdleLimit(30*time.Second)); err != nil {
					t.Fatal(err)
				}
				settings := "select current_setting('synchronous_commit') || ' ' || current_setting('idle_in_transaction_session_timeout') || ' ' ||" +
					" current_setting('tcp_user_timeout') || ' ' || current_setting('tcp_keepalives_idle')"
				if got := tx.value(settings); got != want+" 30s 30000 10" {
					t.Errorf("in the transaction of a session with synchronous_commit = %s the settings are %q, want %q", before, got, want+" 30s 30000 10")
				}
				if err := tx.commit(); err != nil {
					t.Fatal(err)
				}
				if got := tx.value(settings); got != before+" 1h 0 7200" {
					t.Errorf("after the transaction the settings are %q, want %q", got, before+" 1h 0 7200")
				}
			}
		})
	}
	for _, opt := range []fencepg.Option{fencepg.WithIdleLimit(-1), fencepg.WithIdleLimit(1 << 62), fencepg.WithSchema("")} {
		if err := fencepg.Claim(t.Context(), nil, "a", 5, opt); err == nil {
			t.Error("Claim with an impossible option = nil")
		}
		if err := fencesql.Claim(t.Context(), nil, "a", 5, opt); err == nil {
			t.Error("Claim with an impossible option = nil")
		}
	}
}

// The index of the marks has an order that no upgrade of the system's collations changes: in an
// index whose order has changed a mark isn't found, and a second one is written.
func TestFencePgCollation(t *testing.T) {
	itest.NeedServers(t)
	s := fencePostgres(t)
	s.exec(t, "create schema collated", "create table public.collated (resource text primary key)")
	t.Cleanup(func() { s.exec(t, "drop schema collated cascade", "drop table public.collated") })
	s.exec(t, fencepg.Migration(fencepg.WithSchema("collated")))
	for table, want := range map[string]bool{"collated.locker_fence": true, "public.collated": false} { // the second one shows that the query can tell
		c := admin[bool](t, s, `select bool_and(c = '"C"'::regcollation) from (
			select unnest(indcollation::oid[]) from pg_index where indrelid = $1::text::regclass and indisprimary
			union all select attcollation from pg_attribute where attrelid = $1::text::regclass and attname = 'resource') as all_of (c)`, table)
		if c != want {
			t.Errorf("%s: resource and its index have the collation C: %v, want %v", table, c, want)
		}
	}
}

//go:build unix

package pg

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence/fencepg"
	"github.com/fencedlock/locker/fence/fencesql"
)

// The ways to begin a transaction with a client of Postgres, for the tests of its fences.

// fenceTx is a transaction in which claims are made, of either package.
type fenceTx struct {
	claim  func(resource string, token locker.Token, opts ...fencepg.Option) error
	exec   func(statement string) error
	value  func(query string) string
	commit func() error
}

// fenceWays begin a transaction on a connection of its own, with either package. setup is what is
// executed before it begins.
func fenceWays(url string) map[string]func(t *testing.T, setup ...string) fenceTx {
	return map[string]func(*testing.T, ...string) fenceTx{
		"fencepg": func(t *testing.T, setup ...string) fenceTx {
			t.Helper()
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
			for _, statement := range setup {
				if _, err := conn.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return fenceTx{
				claim: func(resource string, token locker.Token, opts ...fencepg.Option) error {
					return fencepg.Claim(t.Context(), tx, resource, token, opts...)
				},
				exec: func(statement string) error { _, err := tx.Exec(t.Context(), statement); return err },
				value: func(query string) (value string) {
					if err := conn.QueryRow(t.Context(), query).Scan(&value); err != nil {
						t.Fatal(err)
					}
					return value
				},
				commit: func() error { return tx.Commit(t.Context()) },
			}
		},
		"fencesql": func(t *testing.T, setup ...string) fenceTx {
			t.Helper()
			db, err := sql.Open("pgx", url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, statement := range setup {
				if _, err := conn.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			tx, err := conn.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return fenceTx{
				claim: func(resource string, token locker.Token, opts ...fencepg.Option) error {
					return fencesql.Claim(t.Context(), tx, resource, token, opts...)
				},
				exec: func(statement string) error { _, err := tx.ExecContext(t.Context(), statement); return err },
				value: func(query string) (value string) {
					if err := conn.QueryRowContext(t.Context(), query).Scan(&value); err != nil {
						t.Fatal(err)
					}
					return value
				},
				commit: tx.Commit,
			}
		},
	}
}

// claimed claims in a transaction of its own.
func claimed(
	t *testing.T, begin func(*testing.T, ...string) fenceTx, resource string, token locker.Token,
	opts ...fencepg.Option,
) error {
	t.Helper()
	tx := begin(t)
	return errors.Join(tx.claim(resource, token, opts...), tx.commit())
}

//go:build unix

package pg

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fencepg"
	"github.com/fencedlock/locker/fence/fencesql"
	"github.com/fencedlock/locker/fence/fencetest"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// fencedPg keeps values in Postgres and checks marks before writes, in transactions of pgx.
type fencedPg struct{ pool *pgxpool.Pool }

func (s fencedPg) Claim(ctx context.Context, resource string, token locker.Token) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return fencepg.Claim(ctx, tx, resource, token) })
}

func (s fencedPg) Write(ctx context.Context, resource string, token locker.Token, value string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := fencepg.Claim(ctx, tx, resource, token); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, fencedWrite, resource, value)
		return err
	})
}

func (s fencedPg) Read(ctx context.Context, resource string) (value string, err error) {
	err = s.pool.QueryRow(ctx, fencedRead, resource).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return value, err
}

// fencedSQL does it in transactions of database/sql.
type fencedSQL struct{ db *sql.DB }

func (s fencedSQL) within(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (s fencedSQL) Claim(ctx context.Context, resource string, token locker.Token) error {
	return s.within(ctx, func(tx *sql.Tx) error { return fencesql.Claim(ctx, tx, resource, token) })
}

func (s fencedSQL) Write(ctx context.Context, resource string, token locker.Token, value string) error {
	return s.within(ctx, func(tx *sql.Tx) error {
		if err := fencesql.Claim(ctx, tx, resource, token); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fencedWrite, resource, value)
		return err
	})
}

func (s fencedSQL) Read(ctx context.Context, resource string) (value string, err error) {
	err = s.db.QueryRowContext(ctx, fencedRead, resource).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return value, err
}

var fencePostgres = itest.Lazily("postgres", Start) // of its own: it is killed

// The suite for storages passes on Postgres.
func TestFencePg(t *testing.T) {
	itest.NeedServers(t)
	s := fencePostgres(t)
	url := FenceURL(t, s)
	crash := func() error { s.restart(t); return nil }
	t.Run("pgx", func(t *testing.T) {
		fencetest.Run(t, fencetest.Harness{Crash: crash, Open: func() (fencetest.Store, error) {
			pool, err := pgxpool.New(t.Context(), url)
			if err == nil {
				t.Cleanup(pool.Close)
			}
			return fencedPg{pool}, err
		}})
	})
	t.Run("database/sql", func(t *testing.T) {
		fencetest.Run(t, fencetest.Harness{Crash: crash, Open: func() (fencetest.Store, error) {
			db, err := sql.Open("pgx", url)
			if err == nil {
				t.Cleanup(func() { _ = db.Close() })
			}
			return fencedSQL{db}, err
		}})
	})
}

// A claim keeps others from claiming until the transaction ends, and they see what it has
// committed; a stale one leaves its transaction usable.
func TestFencePgTransactions(t *testing.T) {
	itest.NeedServers(t)
	s := fencePostgres(t)
	pool, err := pgxpool.New(t.Context(), FenceURL(t, s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	resource := step.LockName(t)
	first, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := fencepg.Claim(t.Context(), first, resource, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Exec(t.Context(), fencedWrite, resource, "first"); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	failed := make(chan error, 1)
	go func() {
		defer close(read)
		failed <- pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if err := fencepg.Claim(t.Context(), tx, resource, 6); err != nil {
				return err
			}
			var value string
			if err := tx.QueryRow(t.Context(), fencedRead, resource).Scan(&value); err != nil {
				return err
			}
			read <- value
			return nil
		})
	}()
	step.Eventually(t, itest.ShortWait, func() error { // it waits
		n, err := pgValue[int](t.Context(), s.nodes[0], `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%locker_fence%'`)
		if err != nil || n == 0 {
			return errors.Join(err, errors.New("the second claim doesn't wait"))
		}
		return nil
	})
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "first" {
		t.Errorf("after its claim the second transaction reads %q (%v), want what the first has committed", got, <-failed)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		var stale *fence.StaleError
		if err := fencepg.Claim(t.Context(), tx, resource, 5); !errors.As(err, &stale) || stale.Highest != 6 {
			t.Errorf("Claim(5) = %v, want ErrStale with the mark 6", err)
		}
		return fencepg.Claim(t.Context(), tx, resource, 7)
	})
	if err != nil {
		t.Errorf("after a stale claim the transaction fails: %v", err)
	}
}

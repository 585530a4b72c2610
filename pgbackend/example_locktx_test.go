package pgbackend_test

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// The lock belongs to a transaction and ends with it. So the work is done under the lock or not at
// all, and no token has to be checked. The setting bounds a holder that stops in its transaction.
func ExampleLocker_LockTx() {
	_ = func(ctx context.Context, l *pgbackend.Locker, pool *pgxpool.Pool) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '30s'"); err != nil {
				return err
			}
			if _, err := l.LockTx(ctx, tx, "invoices/42"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE invoices SET total = total + 100 WHERE id = 42")
			return err
		})
	}
}

// A job that is left to the transaction that has it. What Open returned is a *pgbackend.Locker if
// the URL is one of Postgres.
func ExampleLocker_TryLockTx() {
	_ = func(ctx context.Context, opened locker.Locker, pool *pgxpool.Pool) error {
		l, ok := locker.AsLocker[*pgbackend.Locker](opened)
		if !ok {
			return errors.New("the locks must be in Postgres")
		}
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := l.TryLockTx(ctx, tx, "nightly-report"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "REFRESH MATERIALIZED VIEW report")
			return err
		})
		if errors.Is(err, locker.ErrHeld) {
			return nil // another transaction is at it
		}
		return err
	}
}

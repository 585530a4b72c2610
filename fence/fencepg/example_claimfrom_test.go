package fencepg_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence/fencepg"
)

// A function that writes in a transaction claims with the lease in its context. It gets no lease
// and no token, and it can't be called without a lock: then ClaimFrom fails, and nothing is
// written.
func ExampleClaimFrom() {
	setTotal := func(ctx context.Context, tx pgx.Tx, total int64) error {
		if err := fencepg.ClaimFrom(ctx, tx, "invoices/42"); err != nil {
			return err // fence.ErrNoLease, or as with Claim
		}
		_, err := tx.Exec(ctx, "UPDATE invoices SET total = $1 WHERE id = 42", total)
		return err
	}

	_ = func(ctx context.Context, l locker.Locker, pool *pgxpool.Pool) error {
		return locker.Do(ctx, l, "invoices/42", func(ctx context.Context, _ locker.Lease) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return setTotal(ctx, tx, 100) })
		})
	}
}

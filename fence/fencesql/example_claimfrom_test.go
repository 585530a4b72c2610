package fencesql_test

import (
	"context"
	"database/sql"

	"github.com/fencedlock/locker/fence/fencesql"
)

// A function below locker.Do claims with the lease in its context. It can't be called without a
// lock: then ClaimFrom fails, and nothing is written.
func ExampleClaimFrom() {
	_ = func(ctx context.Context, tx *sql.Tx, total int64) error {
		if err := fencesql.ClaimFrom(ctx, tx, "invoices/42"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE invoices SET total = $1 WHERE id = 42", total)
		return err
	}
}

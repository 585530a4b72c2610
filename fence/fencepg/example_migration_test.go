package fencepg_test

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker/fence/fencepg"
)

// The table of marks is made by SQL that belongs into the migrations of the program. A tool that
// takes files gets it printed into one; a tool that takes Go functions may execute it.
func ExampleMigration() {
	_ = func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fencepg.Migration(fencepg.WithSchema("billing")))
		return err
	}
}

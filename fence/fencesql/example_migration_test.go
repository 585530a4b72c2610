package fencesql_test

import (
	"context"
	"database/sql"

	"github.com/fencedlock/locker/fence/fencesql"
)

// The table of marks is made by SQL that belongs into the migrations of the program. A tool that
// takes files gets it printed into one; a tool that takes Go functions may execute it.
func ExampleMigration() {
	_ = func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fencesql.Migration(fencesql.WithSchema("billing")))
		return err
	}
}

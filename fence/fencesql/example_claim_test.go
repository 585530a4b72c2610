package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fencesql"
)

// A critical section in a transaction claims first, and then reads. If this process is late, the
// claim is refused, and nothing is written.
func ExampleClaim() {
	add := func(ctx context.Context, db *sql.DB, lease locker.Lease, amount int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
		if err := fencesql.Claim(ctx, tx, "invoices/42", lease.Token(), fencesql.WithIdleLimit(30*time.Second)); err != nil {
			return err // matches fence.ErrStale: a newer holder was here
		}
		var total int64
		if err := tx.QueryRowContext(ctx, "SELECT total FROM invoices WHERE id = 42").Scan(&total); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE invoices SET total = $1 WHERE id = 42", total+amount); err != nil {
			return err
		}
		return tx.Commit()
	}

	_ = func(ctx context.Context, l locker.Locker, db *sql.DB) {
		err := locker.Do(ctx, l, "invoices/42", func(ctx context.Context, lease locker.Lease) error {
			return add(ctx, db, lease, 100)
		})
		if errors.Is(err, fence.ErrStale) {
			log.Print("this process was paused for too long; nothing was written")
		}
	}
}

// Package fencesql checks fencing tokens in Postgres, inside the caller's transaction of database/sql. It works with every driver
// for Postgres that numbers its parameters ($1), and needs the standard library alone. Package fencepg does the same for pgx, and
// tells how a transaction uses it.
//
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	if err := fencesql.Claim(ctx, tx, "invoice/42", lease.Token()); err != nil {
//		return err // matches fence.ErrStale: a newer holder was here
//	}
//	// read and write in tx
//	return tx.Commit()
package fencesql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/internal/postgres"
)

// Schema is the SQL that makes the table of marks, locker_fence. Put it into your migrations; it may be run again, but not
// twice at the same time. Writers need SELECT, INSERT and UPDATE on the table.
func Schema() string { return postgres.Schema }

// Claim raises the mark of a resource to token within tx, or fails with an error that matches [fence.ErrStale]; see
// [fence.Guard]. A stale claim leaves the transaction usable. It holds from the commit on, and until then keeps others
// who claim that resource waiting, within ctx.
func Claim(ctx context.Context, tx *sql.Tx, resource string, token locker.Token) error {
	if err := fence.Check(resource, token); err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, postgres.Claim, resource, int64(token))
	if err != nil {
		return fmt.Errorf("fence: claim %q: %w", resource, err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	var highest int64
	if err := tx.QueryRowContext(ctx, postgres.Mark, resource).Scan(&highest); err != nil {
		return fmt.Errorf("fence: claim %q: %w; and its mark: %w", resource, fence.ErrStale, err)
	}
	return &fence.StaleError{Resource: resource, Token: token, Highest: locker.Token(highest)}
}

// Package fencepg checks fencing tokens in Postgres, inside the caller's transaction of pgx. Package fencesql does the same for
// database/sql.
//
//	tx, err := pool.Begin(ctx)
//	defer tx.Rollback(ctx)
//	if err := fencepg.Claim(ctx, tx, "invoice/42", lease.Token()); err != nil {
//		return err // matches fence.ErrStale: a newer holder was here
//	}
//	err = tx.QueryRow(ctx, "SELECT total FROM invoices WHERE id = 42").Scan(&total)
//	…
//	_, err = tx.Exec(ctx, "UPDATE invoices SET total = $1 WHERE id = 42", total)
//	return tx.Commit(ctx)
//
// The claim locks the row of the resource's mark until the transaction ends, so nobody else's claim of that resource comes
// between it and the commit. A critical section of several transactions claims at the beginning of each.
//
// Claim before the first statement that reads: at the level READ COMMITTED each later statement sees what the last holder has
// committed; at REPEATABLE READ and SERIALIZABLE the claim is then the statement that fixes the snapshot, and
// fails with a serialization error (40001) if it had to wait for another transaction that claimed; begin anew after that, as
// with any such error.
package fencepg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

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
func Claim(ctx context.Context, tx pgx.Tx, resource string, token locker.Token) error {
	if err := fence.Check(resource, token); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, postgres.Claim, resource, int64(token))
	if err != nil {
		return fmt.Errorf("fence: claim %q: %w", resource, err)
	}
	if tag.RowsAffected() == 1 {
		return nil
	}
	var highest int64
	if err := tx.QueryRow(ctx, postgres.Mark, resource).Scan(&highest); err != nil {
		return fmt.Errorf("fence: claim %q: %w; and its mark: %w", resource, fence.ErrStale, err)
	}
	return &fence.StaleError{Resource: resource, Token: token, Highest: locker.Token(highest)}
}

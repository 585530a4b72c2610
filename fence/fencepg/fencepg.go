// Package fencepg checks fencing tokens in Postgres (13 or later), inside the caller's transaction of pgx. Package fencesql does the
// same for database/sql.
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
// fails with a serialization error (40001) if it had to wait for another transaction that claimed; begin a new transaction after
// that, as with any such error.
//
// Claim in the transaction itself, not within a savepoint: nested transactions of pgx, and those of ORMs, are savepoints. The rollback
// of a savepoint would take the claim back and let the transaction go on. Claim refuses that with [ErrSavepoint].
//
// # A holder that stops in its transaction
//
// The lock of the row has no TTL. A process that is stopped or cut off between its claim and its commit keeps the claims of others
// waiting for as long as its session lives: until TCP notices, by default hours later, and for a process that is stopped until it goes
// on. A claim that is stale does the same until its transaction is rolled back, so do that at once. [IdleLimit] has the server end such
// a session, unless it stops within COPY. A session that is ended has written nothing.
//
// # What makes a mark go away
//
// The rollback of the claim's transaction; deleting its row, so delete it only when no holder with a smaller token can be alive any
// more (the row of a resource outlives the resource); and what takes committed data away: files that are set back to an older copy, a
// failover to a replica that had not got the commit yet, if the standby is not a synchronous one. A claim waits for the disk even where
// synchronous_commit is off: it sets that to on for its transaction. (Don't set it to off after the claim.)
//
// An index whose order has changed hides marks as well: that happens to text when libc or ICU is upgraded, in a database with a collation
// of theirs. The table that [Schema] makes has the collation "C", which doesn't change. A table that was made without it keeps the old one.
// Change that before the next upgrade, with no transactions that claim:
//
//	ALTER TABLE public.locker_fence ALTER COLUMN resource TYPE text COLLATE "C"
//
// That builds the index again. If a mark is there twice since an earlier upgrade, it fails: then keep the row with the highest token.
package fencepg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/internal/postgres"
)

// ErrSavepoint says that a claim was made within a savepoint. Roll the transaction back; the claim holds no longer than the savepoint.
var ErrSavepoint = postgres.ErrSavepoint

// Option changes one claim.
type Option = postgres.Option

// In names the schema that has the table of marks. Without it, that is "public", whatever search_path says. All who write the data claim
// in the same table.
func In(schema string) Option { return postgres.In(schema) }

// IdleLimit has the server end the session, and with it the transaction, when it has heard nothing from this client for d: between two
// statements (idle_in_transaction_session_timeout), or because the client can't be reached (tcp_user_timeout, and keepalives). What is set
// is over with the transaction. The TTL of the lease is a good value. Without it, or with 0, the session's own settings count.
// It is rounded down to milliseconds.
//
// It doesn't bound a holder that stops in the middle of COPY … FROM STDIN: the server waits for its data then, within a statement. Set
// statement_timeout for the transaction (SET LOCAL), which bounds each statement, or transaction_timeout (Postgres 17), which bounds
// everything.
func IdleLimit(d time.Duration) Option { return postgres.IdleLimit(d) }

// Schema is the SQL that makes the table of marks, public.locker_fence. Put it into your migrations; it may be run again, but not
// twice at the same time. Writers need SELECT, INSERT and UPDATE on the table.
func Schema() string { return SchemaIn(postgres.DefaultSchema) }

// SchemaIn is [Schema] for the table in another schema, which it doesn't make. The claims need [In] with the same name.
func SchemaIn(schema string) string { return postgres.Of([]Option{In(schema)}).Table() }

// Claim raises the mark of a resource to token within tx, or fails with an error that matches [fence.ErrStale]; see
// [fence.Guard]. A stale claim leaves the transaction usable. It holds from the commit on, and until then keeps others
// who claim that resource waiting, within ctx.
//
// If tx is within a savepoint the error matches [ErrSavepoint].
func Claim(ctx context.Context, tx pgx.Tx, resource string, token locker.Token, opts ...Option) error {
	s := postgres.Of(opts)
	if err := fence.Check(resource, token); err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return err
	}
	outermost := false
	err := tx.QueryRow(ctx, s.Claim(), resource, int64(token)).Scan(&outermost)
	switch {
	case err == nil && outermost:
		return nil
	case err == nil:
		return fmt.Errorf("fence: claim %q: %w", resource, ErrSavepoint)
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("fence: claim %q: %w", resource, err)
	}
	var highest int64
	if err := tx.QueryRow(ctx, s.Mark(), resource).Scan(&highest); err != nil {
		return fmt.Errorf("fence: claim %q: %w; and its mark: %w", resource, fence.ErrStale, err)
	}
	return &fence.StaleError{Resource: resource, Token: token, Highest: locker.Token(highest)}
}

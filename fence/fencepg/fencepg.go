// Package fencepg checks fencing tokens in Postgres (13 or later), inside the caller's transaction
// of pgx. Package fencesql does the same for database/sql.
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
// The claim locks the row of the resource's mark until the transaction ends, so no other claim of
// that resource comes between it and the commit. A critical section of several transactions claims
// at the beginning of each.
//
// Claim before the first statement that reads. At the level READ COMMITTED each later statement
// sees what the last holder has committed. At REPEATABLE READ and SERIALIZABLE the claim is then
// the statement that fixes the snapshot. It fails with a serialization error (40001) if it had to
// wait for another transaction that claimed; begin a new transaction after that, as with any such
// error.
//
// Claim in the transaction itself, not within a savepoint. The nested transactions of pgx and of
// ORMs are savepoints. The rollback of a savepoint would take the claim back and let the
// transaction go on. Claim refuses that with [ErrSavepoint].
//
// A transaction can also end without the Commit of tx: by a Begin on tx.Conn() that is committed, or by
// a script with COMMIT. The claim ends with it. Statements that follow are executed one by one without
// a fence, and a second claim protects none of them.
//
// # A holder that stops in its transaction
//
// The lock of the row has no TTL. A process that is stopped or cut off between its claim and its
// commit keeps the claims of others waiting for as long as its session lives: until TCP notices,
// which takes hours by default, and for a stopped process until it goes on. A stale claim does the
// same until its transaction is rolled back, so roll it back at once. With [WithIdleLimit] the
// server ends such a session, unless it stops within COPY. A session that the server has ended has
// written nothing.
//
// # How a mark can be lost
//
//   - The claim's transaction is rolled back.
//   - Its row is deleted. Delete it only when no holder with a smaller token can be alive any more;
//     the row of a resource outlives the resource.
//   - Committed data is lost: files are set back to an older copy, or a failover goes to a replica
//     that had not received the commit yet, where the standby isn't a synchronous one. A claim
//     waits for the disk even where synchronous_commit is off, because it sets that to on for its
//     transaction. (Don't set it to off after the claim.)
//   - An index whose order has changed hides marks. That happens to text when libc or ICU is
//     upgraded, in a database with one of their collations. The table of [Migration] has the
//     collation "C", which doesn't change. A table that was made without it keeps the old one.
//
// Change the collation of such a table before the next upgrade, while no transaction claims:
//
//	ALTER TABLE public.locker_fence ALTER COLUMN resource TYPE text COLLATE "C"
//
// That builds the index again. It fails if a mark is there twice since an earlier upgrade. Then
// keep the row with the highest token.
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

// ErrSavepoint says that a claim was made within a savepoint, so that it holds no longer than the
// savepoint. Roll the transaction back.
var ErrSavepoint = postgres.ErrSavepoint

// Option changes one claim, or the SQL of [Migration].
type Option = postgres.Option

// WithSchema names the schema that has the table of marks. The default is "public", whatever
// search_path says. All programs that write the data must claim in the same table.
func WithSchema(schema string) Option { return postgres.WithSchema(schema) }

// WithIdleLimit makes the server end the session, and with it the transaction, when it has heard
// nothing from this client for d: between two statements (idle_in_transaction_session_timeout), or
// because the client can't be reached (tcp_user_timeout, and keepalives). The settings end with the
// transaction. The TTL of the lease is a good value. Without this option, or with 0, the session's
// own settings count. d is rounded down to milliseconds.
//
// Behind a pooler only idle_in_transaction_session_timeout sees this client; the TCP settings see
// the pooler.
//
// It doesn't bound a holder that stops in the middle of COPY … FROM STDIN, because the server waits
// for its data then, within a statement. For that set statement_timeout for the transaction (SET
// LOCAL), which bounds each statement, or transaction_timeout (Postgres 17), which bounds
// everything.
func WithIdleLimit(d time.Duration) Option { return postgres.WithIdleLimit(d) }

// Migration is the SQL that makes the table of marks, public.locker_fence. [WithSchema] puts the
// table into another schema, which the SQL doesn't make. Put it into your migrations. It may be run
// again, but not twice at the same time. Writers need SELECT, INSERT and UPDATE on the table.
func Migration(opts ...Option) string { return postgres.Of(opts).Table() }

// Claim raises the mark of a resource to token within tx, or fails with an error that matches
// [fence.ErrStale]; see [fence.Guard]. A stale claim leaves the transaction usable. The claim is
// final when the transaction is committed; until then other claims of the resource wait, within
// their ctx.
//
// If tx is within a savepoint, the error matches [ErrSavepoint].
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

// ClaimFrom is [Claim] with the token of the lease in ctx, which comes from [locker.Do] or
// [locker.WithLease]: so a function that gets ctx and tx needs neither the lease nor its token.
// Where locks are nested, it takes the lease whose name is resource; a single lease is taken whatever
// its name. So a function that may run below another lock, such as a leader's, finds the token by the
// lock's name with [fence.TokenFrom], which has the rule and the errors, and uses [Claim].
func ClaimFrom(ctx context.Context, tx pgx.Tx, resource string, opts ...Option) error {
	token, err := fence.TokenFrom(ctx, resource)
	if err != nil {
		return err
	}
	return Claim(ctx, tx, resource, token, opts...)
}

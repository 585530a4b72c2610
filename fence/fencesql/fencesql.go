// Package fencesql checks fencing tokens in Postgres (13 or later), inside the caller's transaction
// of database/sql. It works with every driver for Postgres that numbers its parameters ($1), and
// needs the standard library alone. Package fencepg does the same for pgx.
//
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	if err := fencesql.Claim(ctx, tx, "invoice/42", lease.Token()); err != nil {
//		return err // matches fence.ErrStale: a newer holder was here
//	}
//	// read and write in tx
//	return tx.Commit()
//
// What the documentation of package fencepg says of transactions holds here as well: claim before
// the first read, and in the transaction itself, not after a SAVEPOINT (the nested transactions of
// ORMs are savepoints). A script with COMMIT ends the claim, and what follows has no fence. A holder
// that stops in its transaction keeps others waiting, and [WithIdleLimit] bounds that. A stale claim
// keeps others waiting until its transaction is rolled back. That documentation also says how a mark
// can be lost.
package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

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
func Claim(ctx context.Context, tx *sql.Tx, resource string, token locker.Token, opts ...Option) error {
	s := postgres.Of(opts)
	if err := fence.Check(resource, token); err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return err
	}
	outermost := false
	err := tx.QueryRowContext(ctx, s.Claim(), resource, int64(token)).Scan(&outermost)
	switch {
	case err == nil && outermost:
		return nil
	case err == nil:
		return fmt.Errorf("fence: claim %q: %w", resource, ErrSavepoint)
	case !errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("fence: claim %q: %w", resource, err)
	}
	var highest int64
	if err := tx.QueryRowContext(ctx, s.Mark(), resource).Scan(&highest); err != nil {
		return fmt.Errorf("fence: claim %q: %w; and its mark: %w", resource, fence.ErrStale, err)
	}
	return &fence.StaleError{Resource: resource, Token: token, Highest: locker.Token(highest)}
}

// ClaimFrom is [Claim] with the token of the lease in ctx, which comes from [locker.Do] or
// [locker.WithLease]: so a function that gets ctx and tx needs neither the lease nor its token.
// Where locks are nested, it takes the lease whose name is resource; a single lease is taken whatever
// its name. So a function that may run below another lock, such as a leader's, finds the token by the
// lock's name with [fence.TokenFrom], which has the rule and the errors, and uses [Claim].
func ClaimFrom(ctx context.Context, tx *sql.Tx, resource string, opts ...Option) error {
	token, err := fence.TokenFrom(ctx, resource)
	if err != nil {
		return err
	}
	return Claim(ctx, tx, resource, token, opts...)
}

// Package fencesql checks fencing tokens in Postgres (13 or later), inside the caller's transaction of database/sql. It works with every
// driver for Postgres that numbers its parameters ($1), and needs the standard library alone. Package fencepg does the same for pgx.
//
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	if err := fencesql.Claim(ctx, tx, "invoice/42", lease.Token()); err != nil {
//		return err // matches fence.ErrStale: a newer holder was here
//	}
//	// read and write in tx
//	return tx.Commit()
//
// What the documentation of package fencepg says of transactions holds here as well: claim before the first read, and in the transaction
// itself, not after a SAVEPOINT (the nested transactions of ORMs are savepoints); a holder that stops in its transaction keeps others waiting
// ([IdleLimit] bounds that), and so does a stale claim until its transaction is rolled back; and what makes a mark go away.
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

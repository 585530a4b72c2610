package fencepg_test

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence/fencepg"
	_ "github.com/fencedlock/locker/pgbackend" // makes postgres:// known
)

// A critical section whose work is fenced in Postgres. The lock may come from any backend; here it does from Postgres, too.
// The SQL of Schema makes the table of marks, once.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	l, err := locker.Open(ctx, os.Getenv("LOCKER_URL"), locker.Correctness, locker.ScopeNetwork)
	if err != nil {
		log.Fatal(err) // the URL leads nowhere, or to a service that doesn't promise as much
	}
	defer l.Close()
	if err := addToInvoice(ctx, l, pool, 100); err != nil {
		log.Print(err)
	}
}

func addToInvoice(ctx context.Context, l locker.Locker, pool *pgxpool.Pool, amount int64) error {
	return locker.Do(ctx, l, "invoices/42", func(ctx context.Context, lease locker.Lease) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := fencepg.Claim(ctx, tx, "invoices/42", lease.Token()); err != nil {
				return err // fence.ErrStale: somebody with a larger token was here, and this process is the late one
			}
			var total int64
			if err := tx.QueryRow(ctx, "SELECT total FROM invoices WHERE id = 42").Scan(&total); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE invoices SET total = $1 WHERE id = 42", total+amount)
			return err
		})
	})
}

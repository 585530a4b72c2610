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

// A critical section whose work is fenced in Postgres. The lock may come from any backend; here it comes
// from Postgres, too. The SQL of Migration makes the table of marks, once.
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

func addToInvoice(
	ctx context.Context, l locker.Locker, pool *pgxpool.Pool, amount int64,
) error {
	work := func(ctx context.Context, lease locker.Lease) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return addInTx(ctx, tx, lease.Token(), amount)
		})
	}
	return locker.Do(ctx, l, "invoices/42", work)
}

func addInTx(
	ctx context.Context, tx pgx.Tx, token locker.Token, amount int64,
) error {
	err := fencepg.Claim(ctx, tx, "invoices/42", token)
	if err != nil {
		return err // fence.ErrStale: this process is late, and writes nothing
	}
	var total int64
	err = tx.QueryRow(ctx,
		"SELECT total FROM invoices WHERE id = 42").Scan(&total)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx,
		"UPDATE invoices SET total = $1 WHERE id = 42", total+amount)
	return err
}

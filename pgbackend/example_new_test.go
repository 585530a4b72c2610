package pgbackend_test

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker/pgbackend"
)

// New makes connections of its own, in the same way as the program's pool.
func ExampleNew() {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	l, err := pgbackend.New(ctx, config, pgbackend.WithPrefix("billing:"))
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
}

// A role that may not create a schema needs it made before, by the migrations of the program.
func ExampleMigration() {
	_ = func(ctx context.Context, pool *pgxpool.Pool) error {
		_, err := pool.Exec(ctx, pgbackend.Migration("locker"))
		return err
	}
}

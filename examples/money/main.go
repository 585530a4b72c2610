// Money moves amounts between accounts in Postgres, with a lock, and with an optimistic lock in the
// database:
//
//	go run ./examples/money --lock redis://127.0.0.1:6379 --data postgres://me@127.0.0.1/test
//
// The lock keeps two transfers from working on the same account at once, so that no transfer has to
// be repeated. The lock may fail, as every lock can: a holder that was paused continues after its
// lease has ended. So the database decides, with a version in each row: if the accounts of a
// transfer have changed since it read them, the transfer writes nothing, and begins again. With
// --no-lock the sum is right as well, but there are many conflicts.
package main

import (
	"context"
	crand "crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	_ "github.com/fencedlock/locker/etcdbackend"    // etcd://
	_ "github.com/fencedlock/locker/filebackend"    // file://
	_ "github.com/fencedlock/locker/pgbackend"      // postgres://
	_ "github.com/fencedlock/locker/redisbackend"   // redis://
	_ "github.com/fencedlock/locker/redlockbackend" // redlock://
	_ "github.com/fencedlock/locker/zkbackend"      // zk://
)

func main() {
	log.SetFlags(0)
	lockURL := flag.String("lock", "", "URL of the lock service")
	dataURL := flag.String("data", "", "URL of the database: postgres://")
	unlocked := flag.Bool("no-lock", false, "leave it all to the database")
	transfers := flag.Int("transfers", 100, "how many, by ten workers")
	flag.Parse()
	if err := run(context.Background(), *lockURL, *dataURL, !*unlocked, *transfers); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, lockURL, dataURL string, locked bool, transfers int) error {
	pool, err := pgxpool.New(ctx, dataURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	b := &bank{pool: pool}
	if locked {
		// The database decides, so it is enough that the lock saves work.
		if b.locker, err = locker.Open(ctx, lockURL, locker.Efficiency); err != nil {
			return err
		}
		defer b.locker.Close()
	}
	if err := b.open(ctx); err != nil {
		return err
	}
	if err := b.work(ctx, transfers); err != nil {
		return err
	}
	sum, err := b.sum(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d transfers, %d conflicts, the sum is %d\n", transfers, b.conflicts.Load(), sum)
	return nil
}

// accounts is small, so that transfers conflict.
var accounts = []string{"anna", "bert"}

type bank struct {
	pool      *pgxpool.Pool
	locker    locker.Locker // nil: without
	conflicts atomic.Int64
}

// open creates the tables and accounts that don't exist yet, with 1000 in each account. Other
// processes may already be running.
func (b *bank) open(ctx context.Context) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		for _, statement := range []string{
			`SELECT pg_advisory_xact_lock(hashtext('examples/money'))`, // two processes that create one table at once would collide
			`CREATE TABLE IF NOT EXISTS accounts (name text PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0), version bigint NOT NULL DEFAULT 1)`,
			`CREATE TABLE IF NOT EXISTS transfers (id text PRIMARY KEY)`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		for _, name := range accounts {
			if _, err := tx.Exec(ctx, `INSERT INTO accounts VALUES ($1, 1000) ON CONFLICT DO NOTHING`, name); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bank) work(ctx context.Context, transfers int) error {
	const workers = 10
	errs := make([]error, workers)
	var left atomic.Int64
	left.Store(int64(transfers))
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for errs[i] == nil && left.Add(-1) >= 0 {
				errs[i] = b.transfer(ctx, transfer{crand.Text(), accounts[i%2], accounts[1-i%2], 1 + rand.Int64N(10)})
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// transfer moves an amount under the lock of the account that pays, and begins again whenever
// another transfer was faster.
func (b *bank) transfer(ctx context.Context, t transfer) error {
	for {
		err := b.under(ctx, "account/"+t.from, func(ctx context.Context) error { return b.try(ctx, t) })
		switch {
		case errors.Is(err, errConflict):
			b.conflicts.Add(1)
		case errors.Is(err, locker.ErrLost) && ctx.Err() == nil:
			// It is unknown whether the transfer was executed. That doesn't matter: a transfer that
			// was executed isn't executed again.
		default:
			return err
		}
	}
}

// under runs f under a lock, or without one.
func (b *bank) under(ctx context.Context, name string, f func(context.Context) error) error {
	if b.locker == nil {
		return f(ctx)
	}
	return locker.Do(ctx, b.locker, name, func(ctx context.Context, _ locker.Lease) error { return f(ctx) })
}

// transfer has an id, so that it is executed once, however often it is tried.
type transfer struct {
	id       string
	from, to string
	amount   int64
}

var errConflict = errors.New("the account has changed meanwhile")

// try reads, asks for approval, and writes if nothing has changed since the read.
func (b *bank) try(ctx context.Context, t transfer) error {
	payer, err := b.read(ctx, t.from)
	if err != nil {
		return err
	}
	if payer.balance < t.amount {
		return nil // declined
	}
	if err := approve(ctx); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO transfers VALUES ($1) ON CONFLICT DO NOTHING`, t.id)
		if err != nil || tag.RowsAffected() == 0 {
			return err // it was executed before
		}
		steps := []func() error{
			func() error {
				tag, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance - $1, version = version + 1
					WHERE name = $2 AND version = $3`, t.amount, t.from, payer.version)
				if err == nil && tag.RowsAffected() == 0 {
					err = errConflict
				}
				return err
			},
			func() error {
				_, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance + $1 WHERE name = $2`, t.amount, t.to)
				return err
			},
		}
		if t.to < t.from { // rows are locked in one order; otherwise two transfers could wait for each other
			slices.Reverse(steps)
		}
		if err := steps[0](); err != nil {
			return err
		}
		return steps[1]()
	})
}

type account struct{ balance, version int64 }

func (b *bank) read(ctx context.Context, name string) (a account, err error) {
	err = b.pool.QueryRow(ctx, `SELECT balance, version FROM accounts WHERE name = $1`, name).Scan(&a.balance, &a.version)
	return a, err
}

// approve represents work that takes time and is not in this database: a limit, a check for fraud,
// a person.
func approve(ctx context.Context) error {
	select {
	case <-time.After(2 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *bank) sum(ctx context.Context) (sum int64, err error) {
	err = b.pool.QueryRow(ctx, `SELECT sum(balance)::bigint FROM accounts WHERE name = ANY($1)`, accounts).Scan(&sum)
	return sum, err
}

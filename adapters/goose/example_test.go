package gooselocker_test

import (
	"context"
	"fmt"

	gooselocker "github.com/fencedlock/locker/adapters/goose"
	"github.com/fencedlock/locker/membackend"
)

func Example() {
	l := membackend.New() // in a program: locker.Open(ctx, os.Getenv("LOCKER_URL"), locker.Correctness)
	defer l.Close()
	migrations := gooselocker.New(l, "migrations/app")
	// In a program: goose.NewProvider(dialect, db, files, goose.WithLocker(migrations)), which calls these two.
	ctx := context.Background()
	fmt.Println(migrations.Lock(ctx, nil))
	fmt.Println(migrations.Unlock(ctx, nil))
	// Output:
	// <nil>
	// <nil>
}

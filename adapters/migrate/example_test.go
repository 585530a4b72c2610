package migratelocker_test

import (
	"fmt"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	migratelocker "github.com/fencedlock/locker/adapters/migrate"
	"github.com/fencedlock/locker/membackend"
)

func Example() {
	l := membackend.New() // in a program: locker.Open(ctx, os.Getenv("LOCKER_URL"), locker.Correctness)
	defer l.Close()
	db, err := stub.WithInstance(nil, &stub.Config{}) // in a program: a real database's WithInstance
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := iofs.New(files, ".") // in a program: an embed.FS
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := migrate.NewWithInstance("iofs", source, "stub", migratelocker.Wrap(db, l, "migrations/app"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	if err := m.Up(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Version())
	// Output: 3 false <nil>
}

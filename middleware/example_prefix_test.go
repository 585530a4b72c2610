package middleware_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/middleware"
)

// Two programs share a service, each below a prefix of its own: their locks never meet.
func ExamplePrefix() {
	ctx := context.Background()
	service := membackend.NewServer()
	billing, err := middleware.Prefix(membackend.New(membackend.WithServer(service)), "billing/")
	if err != nil {
		log.Fatal(err)
	}
	defer billing.Close()
	stock, err := middleware.Prefix(membackend.New(membackend.WithServer(service)), "stock/")
	if err != nil {
		log.Fatal(err)
	}
	defer stock.Close()

	for _, l := range []locker.Locker{billing, stock} {
		lease, err := locker.TryAcquire(ctx, l, "import")
		if err != nil {
			log.Fatal(err)
		}
		defer lease.Release(ctx)
		fmt.Println("holds", lease.Name())
	}
	fmt.Println(service.Residue()) // what the service knows
	// Output:
	// holds import
	// holds import
	// "billing/import" is held, and 0 wait; "stock/import" is held, and 0 wait
}

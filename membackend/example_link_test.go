package membackend_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// A holder whose network is cut loses its lease at the deadline, though nothing tells it so. Another
// one gets the lock only after that.
func ExampleLink_Cut() {
	ctx := context.Background()
	service, network := membackend.NewServer(), membackend.NewLink()
	one := membackend.New(membackend.WithServer(service), membackend.WithLink(network))
	two := membackend.New(membackend.WithServer(service))
	defer two.Close()

	first, err := one.Acquire(ctx, "invoices", locker.WithTTL(200*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	network.Cut()
	second, err := two.Acquire(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the first holder knows:", errors.Is(first.Err(), locker.ErrLost))
	fmt.Println("the second has a larger token:", second.Token() > first.Token())

	network.Heal()
	fmt.Println(one.Close())
	// Output:
	// the first holder knows: true
	// the second has a larger token: true
	// <nil>
}

// A reply that is lost: nobody knows whether the lock was granted, so Acquire fails, and what it may
// have left is removed in the background.
func ExampleLink_Drop() {
	service, network := membackend.NewServer(), membackend.NewLink()
	l := membackend.New(membackend.WithServer(service), membackend.WithLink(network))

	network.Drop(1)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, "invoices")
	fmt.Println("held by another:", errors.Is(err, locker.ErrHeld))
	fmt.Println("out of time:", errors.Is(err, context.DeadlineExceeded))

	fmt.Println(l.Close()) // waits for the removal
	fmt.Printf("left on the service: %q\n", service.Residue())
	// Output:
	// held by another: false
	// out of time: true
	// <nil>
	// left on the service: ""
}

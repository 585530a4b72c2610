package membackend_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// A service that fails is not a lock that is held: the code under test must tell them apart.
func ExampleServer_Fail() {
	service := membackend.NewServer()
	l := membackend.New(membackend.WithServer(service))
	defer l.Close()

	down := errors.New("connection refused")
	service.Fail(down)
	_, err := locker.TryAcquire(context.Background(), l, "invoices")
	fmt.Println(errors.Is(err, locker.ErrHeld), errors.Is(err, down))

	service.Fail(nil)
	_, err = locker.TryAcquire(context.Background(), l, "invoices")
	fmt.Println(err)
	// Output:
	// false true
	// <nil>
}

// One failed renewal is not the loss of a lease: it is tried again until the deadline.
func ExampleServer_RefuseRenewals() {
	ctx := context.Background()
	service := membackend.NewServer()
	l := membackend.New(membackend.WithServer(service))
	defer l.Close()
	lease, err := l.Acquire(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	service.RefuseRenewals(errors.New("read-only replica"))
	fmt.Println(lease.Renew(ctx) != nil, lease.Err())
	service.RefuseRenewals(nil)
	fmt.Println(lease.Renew(ctx), lease.Err())
	// Output:
	// true <nil>
	// <nil> <nil>
}

// A service that has lost its data may grant a lock again that somebody holds. The first holder
// learns of it by its next renewal.
func ExampleServer_Wipe() {
	ctx := context.Background()
	service := membackend.NewServer()
	l := membackend.New(membackend.WithServer(service))
	defer l.Close()
	first, err := l.Acquire(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}

	service.Wipe()
	fmt.Println(errors.Is(first.Renew(ctx), locker.ErrLost))
	second, err := l.Acquire(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	defer second.Release(ctx)
	fmt.Println(second.Token() > first.Token())
	// Output:
	// true
	// true
}

package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// Err costs less than a microsecond, so a holder looks at it before each step. It reads the clock: a
// process that was stopped for too long finds out here.
func ExampleLease_Err() {
	ctx := context.Background()
	service := membackend.NewServer()
	l := membackend.New(membackend.WithServer(service))
	defer l.Close()

	lease, err := l.Acquire(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	for invoice := 1; invoice <= 3; invoice++ {
		if invoice == 3 {
			service.Expire("invoices") // somebody takes the lock away
			<-lease.Done()
		}
		if err := lease.Err(); err != nil {
			fmt.Println("stopped:", errors.Is(err, locker.ErrLost))
			return
		}
		fmt.Println("invoice", invoice)
	}
	// Output:
	// invoice 1
	// invoice 2
	// stopped: true
}

// Release works with a context that is over, so it needs no context of its own in a function that
// was given up. Its error matches ErrLost if the lock had been lost before.
func ExampleLease_Release() {
	ctx, cancel := context.WithCancel(context.Background())
	l := membackend.New()
	defer l.Close()

	lease, err := l.Acquire(ctx, "invoices/42")
	if err != nil {
		log.Fatal(err)
	}
	cancel()
	fmt.Println(lease.Err()) // the end of ctx doesn't end the lease
	fmt.Println(lease.Release(ctx))
	fmt.Println(errors.Is(lease.Err(), locker.ErrReleased))
	// Output:
	// <nil>
	// <nil>
	// true
}

// The context of WithLease ends with the lease, so what uses it stops when the lock is lost. The
// cause says why.
func ExampleWithLease() {
	service := membackend.NewServer()
	l := membackend.New(membackend.WithServer(service))
	defer l.Close()

	lease, err := l.Acquire(context.Background(), "invoices/42")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := locker.WithLease(context.Background(), lease)
	defer cancel()

	service.Expire("invoices/42")
	<-ctx.Done()
	fmt.Println(ctx.Err())
	fmt.Println(errors.Is(context.Cause(ctx), locker.ErrLost))
	// Output:
	// context canceled
	// true
}

// A function below Do finds the lease in its context, and needs no further parameter.
func ExampleLeaseFrom() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()

	step := func(ctx context.Context) error {
		lease, ok := locker.LeaseFrom(ctx)
		if !ok {
			return errors.New("step needs a lock")
		}
		fmt.Println("working under", lease.Name())
		return lease.Err()
	}
	err := locker.Do(ctx, l, "invoices/42", func(ctx context.Context, _ locker.Lease) error { return step(ctx) })
	fmt.Println(err)
	// Output:
	// working under invoices/42
	// <nil>
}

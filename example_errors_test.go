package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// Every error of a Locker is an *Error, which says what was tried, where, and on which lock.
func ExampleError() {
	ctx := context.Background()
	service := membackend.NewServer()
	l := membackend.New(membackend.WithServer(service))
	defer l.Close()

	service.Fail(errors.New("connection refused"))
	_, err := l.Acquire(ctx, "invoices/42")
	service.Fail(nil)

	var e *locker.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op, e.Backend, e.Name)
	}
	fmt.Println(errors.Is(err, locker.ErrHeld)) // a service that fails never says that a lock is held
	fmt.Println(err)
	// Output:
	// acquire mem invoices/42
	// false
	// locker: acquire "invoices/42" on mem: connection refused
}

// OutcomeOf makes one of few words of the error of Acquire, for the label of a metric.
func ExampleOutcomeOf() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()

	lease, err := l.Acquire(ctx, "invoices/42")
	fmt.Println(locker.OutcomeOf(err))
	_, err = locker.TryAcquire(ctx, l, "invoices/42")
	fmt.Println(locker.OutcomeOf(err))
	_, err = l.Acquire(ctx, "")
	fmt.Println(locker.OutcomeOf(err))
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// granted
	// held
	// invalid
}

package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend" // makes mem:// known
)

// A program states what it needs of its lock service when it opens the Locker. A URL whose service
// promises less is refused at the start, and not found out when data is lost.
func ExampleOpen() {
	ctx := context.Background()

	l, err := locker.Open(ctx, "mem://?ttl=10s", locker.Efficiency, locker.OrderFIFO)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	fmt.Println("opened:", l.Guarantees().Backend)

	_, err = locker.Open(ctx, "mem://", locker.ScopeNetwork)
	fmt.Println(errors.Is(err, locker.ErrGuarantee))
	fmt.Println(err)

	_, err = locker.Open(ctx, "mem://?tll=10s") // misspelt
	fmt.Println(errors.Is(err, locker.ErrOption))
	// Output:
	// opened: mem
	// true
	// locker: open on mem: guarantee is missing: scope must be network or better, but mem has: one process
	// true
}

// Require checks the Guarantees of a Locker that was made without Open, by the package of its
// backend.
func ExampleRequire() {
	l := membackend.New()
	defer l.Close()

	fmt.Println(locker.Require(l.Guarantees(), locker.RequireTTL, locker.OrderFIFO))
	err := locker.Require(l.Guarantees(), locker.Correctness)
	fmt.Println(errors.Is(err, locker.ErrGuarantee))
	// Output:
	// <nil>
	// true
}

// Guarantees are data: a program may decide by them.
func ExampleGuarantees() {
	g := membackend.Guarantees()
	fmt.Println("scope:", g.Scope)
	fmt.Println("order:", g.Order)
	fmt.Println("fair:", g.Order >= locker.OrderQueue)
	// Output:
	// scope: one process
	// order: FIFO
	// fair: true
}

// Another backend may count its tokens from 1. A storage that has seen larger tokens of the old
// backend would refuse all of them. The base is larger than every token of the old backend.
func ExampleTokenBase() {
	ctx := context.Background()
	l, err := locker.TokenBase(membackend.New(), 1<<60)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()

	lease, err := l.Acquire(ctx, "invoices/42")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	fmt.Println(lease.Token() > 1<<60)
	// Output: true
}

// ValidName tells whether text from outside, such as the name of a customer, may be in the name of a
// lock.
func ExampleValidName() {
	fmt.Println(locker.ValidName("invoices/Žofie Dvořák"))
	fmt.Println(errors.Is(locker.ValidName("invoices\n"), locker.ErrName))
	// Output:
	// <nil>
	// true
}

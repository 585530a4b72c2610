package locker_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// Inspect says who holds a lock and who waits for it. Nothing changes on the service.
func ExampleInspect() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()

	status, err := locker.Inspect(ctx, l, "invoices/42", locker.Look{Waiters: 10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("free:", status.Holder == nil)

	lease, err := l.Acquire(ctx, "invoices/42", locker.WithHolder("web-7f9c"))
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	status, err = locker.Inspect(ctx, l, "invoices/42", locker.Look{Waiters: 10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Holder.Holder, status.Holder.Token == lease.Token(), status.Waiting)
	// Output:
	// free: true
	// web-7f9c true 0
}

// List iterates over the locks whose names begin with a prefix. They come in no order.
func ExampleList() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()
	for _, name := range []string{"invoices/1", "invoices/2", "reports/1"} {
		if _, err := l.Acquire(ctx, name); err != nil {
			log.Fatal(err)
		}
	}

	for s, err := range locker.List(ctx, l, "invoices/", 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.Name, s.Waiting)
	}
	// Unordered output:
	// invoices/1 0
	// invoices/2 0
}

// A server without a storage of its own compares the token of a request with the holder's token.
func ExampleCurrentToken() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()
	lease, err := l.Acquire(ctx, "printer/3")
	if err != nil {
		log.Fatal(err)
	}

	token, err := locker.CurrentToken(ctx, l, "printer/3", 0)
	fmt.Println(token == lease.Token(), err)
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}
	token, err = locker.CurrentToken(ctx, l, "printer/3", 0)
	fmt.Println(token, err)
	// Output:
	// true <nil>
	// 0 <nil>
}

package locker_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// shortHolds is a Locker around another one. It refuses to hold a lock for longer than a minute.
type shortHolds struct{ locker.Locker }

func (s shortHolds) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	req, err := locker.Resolve(name, opts...)
	if err != nil {
		return s.Locker.Acquire(ctx, name, opts...) // which returns it as a *locker.Error
	}
	if req.MaxHold == 0 || req.MaxHold > time.Minute {
		// The last option counts. Clip makes append copy the slice, which may be the caller's.
		opts = append(slices.Clip(opts), locker.WithMaxHold(time.Minute))
	}
	return s.Locker.Acquire(ctx, name, opts...)
}

// Unwrap lets AsLocker, Observe and Inspect find the Locker below, whose names and tokens are the
// same.
func (s shortHolds) Unwrap() locker.Locker { return s.Locker }

// A decorator reads the options of its caller through Resolve.
func ExampleResolve() {
	req, err := locker.Resolve("invoices/42", locker.NoWait(), locker.WithTTL(10*time.Second))
	fmt.Println(req.Name, req.NoWait, req.TTL, err)

	_, err = locker.Resolve("invoices/42", locker.WithTTL(-time.Second))
	fmt.Println(err != nil)
	// Output:
	// invoices/42 true 10s <nil>
	// true
}

// AsLocker looks through decorators for what a Locker offers in addition.
func ExampleAsLocker() {
	var l locker.Locker = shortHolds{membackend.New()}
	defer l.Close()

	lease, err := l.Acquire(context.Background(), "invoices/42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(time.Until(lease.Deadline()) <= time.Minute)

	o, ok := locker.AsLocker[locker.Observable](l)
	if !ok {
		log.Fatal("this locker can't be observed")
	}
	stats, _ := o.Stats()
	fmt.Println(stats.Held)
	// Output:
	// true
	// 1
}

// traced is a lease that a decorator has wrapped, with a method of its own.
type traced struct{ locker.Lease }

// Unwrap lets As and Slot find what the lease below offers.
func (t traced) Unwrap() locker.Lease { return t.Lease }

// Trace is what this lease offers beyond Lease.
func (t traced) Trace() string { return "trace of " + t.Name() }

// As finds what a lease offers in addition, such as etcdbackend.Owner or filebackend.Handle.
func ExampleAs() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()
	inner, err := l.Acquire(ctx, "invoices/42")
	if err != nil {
		log.Fatal(err)
	}
	var lease locker.Lease = traced{inner}
	defer lease.Release(ctx)

	if t, ok := locker.As[interface{ Trace() string }](lease); ok {
		fmt.Println(t.Trace())
	}
	// Output: trace of invoices/42
}

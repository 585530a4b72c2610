package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// Acquire waits for as long as its context lasts. The error of a wait that ran out of time matches
// ErrHeld if another holder has the lock. Otherwise the service hasn't answered.
func ExampleLocker_Acquire() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()

	lease, err := l.Acquire(ctx, "invoices/42")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	wait, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err = l.Acquire(wait, "invoices/42")
	fmt.Println("another holder has it:", errors.Is(err, locker.ErrHeld))
	fmt.Println("the time ran out:", errors.Is(err, context.DeadlineExceeded))
	// Output:
	// another holder has it: true
	// the time ran out: true
}

// TryAcquire is Acquire with NoWait in one word. So a job of cron isn't started on one machine while
// another is at it. If the job is short, a machine that starts later does it again: with WithMinHold the
// lock stays until the clocks of all machines have passed the start.
func ExampleTryAcquire() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()

	lease, err := locker.TryAcquire(ctx, l, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	_, err = locker.TryAcquire(ctx, l, "nightly-report")
	fmt.Println(errors.Is(err, locker.ErrHeld))
	// Output: true
}

// A caller that acquires its own lock again would wait for itself. With a context that comes from
// the lease, Acquire notices that.
func ExampleLocker_Acquire_notReentrant() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()

	err := locker.Do(ctx, l, "invoices/42", func(ctx context.Context, _ locker.Lease) error {
		_, err := l.Acquire(ctx, "invoices/42")
		return err
	})
	fmt.Println(errors.Is(err, locker.ErrHeldByCaller))
	// Output: true
}

// WithTTL says how long the others wait for a holder that has died, and how long a holder may be out
// of touch with the service.
func ExampleWithTTL() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()

	lease, err := l.Acquire(ctx, "invoices/42", locker.WithTTL(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	left := time.Until(lease.Deadline())
	fmt.Println(left > 50*time.Second, left < time.Minute) // less than the TTL, because clocks differ
	// Output: true true
}

// WithMaxHold bounds a holder that is stuck but alive, whose lease would be renewed without end.
func ExampleWithMaxHold() {
	l := membackend.New()
	defer l.Close()

	err := locker.Do(context.Background(), l, "invoices/42", func(ctx context.Context, _ locker.Lease) error {
		<-ctx.Done() // stuck until its context ends
		return context.Cause(ctx)
	}, locker.WithMaxHold(10*time.Millisecond))
	fmt.Println(errors.Is(err, locker.ErrLost), errors.Is(err, locker.ErrMaxHold))
	// Output: true true
}

// Without renewal a lease ends after its TTL. Its holder renews it when it has made progress, so a
// holder without progress loses the lock.
func ExampleWithoutRenewal() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()

	lease, err := l.Acquire(ctx, "import", locker.WithoutRenewal(), locker.WithTTL(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	for _, file := range []string{"a.csv", "b.csv"} {
		fmt.Println("imported", file)
		if err := lease.Renew(ctx); err != nil {
			log.Fatal(err) // ErrLost, or the service's error
		}
	}
	fmt.Println("still held:", lease.Err() == nil)
	// Output:
	// imported a.csv
	// imported b.csv
	// still held: true
}

// WithHolder is a text for people who look at the service, such as the reason why a lock is held by
// hand. Without it they see the machine, the process and the program.
func ExampleWithHolder() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()

	lease, err := l.Acquire(ctx, "deploy/production", locker.WithHolder("alice, OPS-118"))
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	status, err := locker.Inspect(ctx, l, "deploy/production", locker.Look{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Holder.Holder)
	// Output: alice, OPS-118
}

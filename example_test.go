package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// Options of Do follow the function, since there may be any number of them. With NoWait a job is
// left to its present holder.
func ExampleDo() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()

	report := func(ctx context.Context, lease locker.Lease) error {
		fmt.Println("only me")
		return nil
	}
	err := locker.Do(ctx, l, "nightly-report", report, locker.NoWait(), locker.WithTTL(30*time.Second))
	if errors.Is(err, locker.ErrHeld) {
		return // another machine is at it
	}
	if err != nil {
		log.Print(err)
	}
	// Output: only me
}

// TryAcquire is Acquire with NoWait in one word.
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

// An observer gets to know what a locker does. Package observe has observers for logs and statistics.
func ExampleObserve() {
	ctx := context.Background()
	l := membackend.New()
	stop, err := locker.Observe(l, printer{}, locker.EventGranted|locker.EventReleased|locker.EventLost)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	lease, err := l.Acquire(ctx, "invoices/42", locker.WithMaxHold(time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	<-lease.Done()
	l.Close() // waits until the events are delivered

	s, _ := locker.StatsOf(l)
	fmt.Println(s.Granted, s.Held, s.Lost)
	// Output:
	// invoices/42 granted
	// invoices/42 lost max_hold
	// 1 0 map[max_hold:1]
}

type printer struct{}

func (printer) Observe(_ context.Context, e locker.Event) {
	fmt.Println(strings.TrimSpace(fmt.Sprint(e.Name, " ", e.Kind, " ", locker.LossOf(e.Cause))))
}

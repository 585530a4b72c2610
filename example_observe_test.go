package locker_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

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

// StatsOf counts what a Locker does, with or without an observer.
func ExampleStatsOf() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()
	if _, err := l.Acquire(ctx, "invoices/42"); err != nil {
		log.Fatal(err)
	}
	_, _ = locker.TryAcquire(ctx, l, "invoices/42")

	if s, ok := locker.StatsOf(l); ok {
		fmt.Println(s.Held, s.Granted, s.Refused)
	}
	// Output: 1 1 map[held:1]
}

// Leases lists what a Locker holds, for example for a page of a program's own.
func ExampleLeases() {
	l := membackend.New()
	defer l.Close()
	if _, err := l.Acquire(context.Background(), "invoices/42", locker.WithHolder("web-7f9c")); err != nil {
		log.Fatal(err)
	}

	list, ok := locker.Leases(l)
	fmt.Println(ok)
	for _, i := range list {
		fmt.Println(i.Name, i.State, i.Holder)
	}
	// Output:
	// true
	// invoices/42 held web-7f9c
}

// A holder leaves the trace of its work on the service, so a program that waits for the lock finds
// it. Package otellocker does this for OpenTelemetry.
func ExampleContextWithTrace() {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	ctx := locker.ContextWithTrace(context.Background(), trace)
	l := membackend.New()
	defer l.Close()
	if _, err := l.Acquire(ctx, "invoices/42"); err != nil {
		log.Fatal(err)
	}

	status, err := locker.Inspect(ctx, l, "invoices/42", locker.Look{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Holder.Trace == trace)
	// Output: true
}

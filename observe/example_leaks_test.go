package observe_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/observe"
)

// Leaks finds leases that nobody releases, and the function that acquired them. A test may use it
// with short limits, a program with minutes.
func ExampleLeaks() {
	l := membackend.New()
	defer l.Close()
	found := make(chan observe.Leak, 1)
	stop, err := observe.Leaks(l, 20*time.Millisecond, 0, func(leak observe.Leak) { found <- leak })
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	if _, err := l.Acquire(context.Background(), "nightly-report"); err != nil {
		log.Fatal(err)
	}
	// … and no Release

	leak := <-found
	fmt.Println(leak.Name, leak.State)
	fmt.Println(leak.Where[0].Function)
	// log.Print(leak) has the same in one line
	// Output:
	// nightly-report held
	// github.com/fencedlock/locker/observe_test.ExampleLeaks
}

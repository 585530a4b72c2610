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

// When the lease is lost, the context of the function ends. Do reports the loss even if the function
// doesn't, because another holder may have had the lock during its last steps.
func ExampleDo_lost() {
	service := membackend.NewServer()
	l := membackend.New(membackend.WithServer(service))
	defer l.Close()

	err := locker.Do(context.Background(), l, "nightly-report", func(ctx context.Context, _ locker.Lease) error {
		service.Expire("nightly-report") // what an operator or a dead network does
		<-ctx.Done()
		return nil
	})
	fmt.Println(errors.Is(err, locker.ErrLost), locker.LossOf(err))
	// Output: true revoked
}

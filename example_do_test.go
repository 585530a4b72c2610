package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
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

// A lease may be lost after the storage has accepted the work. Then Do returns ErrLost, and the work
// is valid. So the id of a payment is stored in the same step as the payment: when the caller tries
// again, the payment isn't booked twice.
func ExampleDo_again() {
	ctx := context.Background()
	service := membackend.NewServer()
	l := membackend.New(membackend.WithServer(service))
	defer l.Close()
	var (
		account fence.Memory // a storage that checks tokens; package fence has others
		balance = 100
		booked  = map[string]bool{} // by the ids of payments
	)
	book := func(id string, amount int, pause func()) error {
		return locker.Do(ctx, l, "account", func(_ context.Context, lease locker.Lease) error {
			err := account.Do("account", lease.Token(), func() error {
				if !booked[id] {
					booked[id] = true
					balance += amount
				}
				return nil
			})
			pause()
			return err
		})
	}

	err := book("payment 1", 10, func() { service.Expire("account") }) // what a long pause does
	fmt.Println(errors.Is(err, locker.ErrLost), balance)
	if errors.Is(err, locker.ErrLost) {
		err = book("payment 1", 10, func() {})
	}
	fmt.Println(err, balance)
	// Output:
	// true 110
	// <nil> 110
}

package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/membackend"
)

// A holder that was paused writes late, with its old token. The guard refuses that, because it has
// seen a larger token.
func ExampleMemory() {
	ctx := context.Background()
	service := membackend.NewServer()
	l := membackend.New(membackend.WithServer(service))
	defer l.Close()
	var (
		guard   fence.Memory
		balance = 100
	)
	// add claims before it reads, and writes as one step with its claim.
	add := func(lease locker.Lease, amount int, pause func()) error {
		if err := guard.Claim(ctx, "account", lease.Token()); err != nil {
			return err
		}
		read := balance
		pause()
		return guard.Do("account", lease.Token(), func() error {
			balance = read + amount
			return nil
		})
	}

	slow, err := l.Acquire(ctx, "account")
	if err != nil {
		log.Fatal(err)
	}
	err = add(slow, 10, func() { // the process is stopped here, and the next holder comes
		service.Expire("account")
		next, err := l.Acquire(ctx, "account")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("next:", add(next, 20, func() {}))
	})
	fmt.Println("late:", errors.Is(err, fence.ErrStale))
	fmt.Println(balance)
	// Output:
	// next: <nil>
	// late: true
	// 120
}

// A function below Do claims with the lease in its context.
func ExampleMemory_ClaimFrom() {
	var guard fence.Memory
	write := func(ctx context.Context) error {
		token, err := guard.ClaimFrom(ctx, "account")
		if err != nil {
			return err
		}
		return guard.Do("account", token, func() error {
			fmt.Println("writes")
			return nil
		})
	}

	fmt.Println(errors.Is(write(context.Background()), fence.ErrNoLease))
	l := membackend.New()
	defer l.Close()
	err := locker.Do(context.Background(), l, "account", func(ctx context.Context, _ locker.Lease) error { return write(ctx) })
	fmt.Println(err)
	// Output:
	// true
	// writes
	// <nil>
}

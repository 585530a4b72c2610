package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/middleware"
)

// A partner allows three calls at a time, from all our machines together.
func ExampleDoPermit() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()

	var now, most atomic.Int32
	call := func(context.Context, locker.Lease) error {
		for n := now.Add(1); ; {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		defer now.Add(-1)
		return nil // the call
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := locker.DoPermit(ctx, l, "partner", 3, call); err != nil {
				log.Print(err)
			}
		})
	}
	all.Wait()
	fmt.Println("never more than three:", most.Load() <= 3)
	// Output: never more than three: true
}

// Each worker of a fleet has a number from 1 to n that no other has, and what belongs to the number is fenced: a
// worker that was suspended and wakes too late can't write to the shard of its successor.
func ExampleAcquirePermit() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()
	var shards fence.Memory // a storage that checks tokens; package fence has others

	work := func(lease locker.Lease) error {
		shard := fmt.Sprintf("shard/%d", locker.Slot(lease))
		return shards.Do(shard, lease.Token(), func() error { return nil })
	}
	first, err := locker.AcquirePermit(ctx, l, "worker", 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("worker", locker.Slot(first), work(first))
	_ = first.Release(ctx) // or its TTL passes while it is suspended

	second, err := locker.AcquirePermit(ctx, l, "worker", 1)
	if err != nil {
		log.Fatal(err)
	}
	defer second.Release(ctx)
	fmt.Println("worker", locker.Slot(second), work(second))
	fmt.Println("the first one writes too late:", errors.Is(work(first), fence.ErrStale))
	// Output:
	// worker 1 <nil>
	// worker 1 <nil>
	// the first one writes too late: true
}

// Two transfers between the same accounts, in opposite directions, don't wait for each other in a circle. A
// transfer claims both accounts before its first write: if it is late by then, it changes nothing. Its two
// writes are two steps, as in two storages, and not atomic: if a lease is lost between them, the second write
// may be refused, and half of the transfer is done. Where both accounts are in one database, claim both and
// write both in one transaction.
func ExampleDoAll() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()
	balance := map[string]int{"anna": 100, "ben": 100}
	var accounts fence.Memory // checks the token of each account

	transfer := func(from, to string, amount int) error {
		return locker.DoAll(ctx, l, locker.Wants(from, to), func(ctx context.Context, leases *locker.LeaseSet) error {
			for _, account := range []string{from, to} {
				if err := accounts.Claim(ctx, account, leases.Lease(account).Token()); err != nil {
					return err
				}
			}
			for account, change := range map[string]int{from: -amount, to: amount} {
				err := accounts.Do(account, leases.Lease(account).Token(), func() error {
					balance[account] += change
					return nil
				})
				if err != nil {
					return err // the other account may have changed: somebody must look
				}
			}
			return nil
		})
	}
	report := func(err error) {
		if err != nil {
			log.Print(err)
		}
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { report(transfer("anna", "ben", 7)) })
		all.Go(func() { report(transfer("ben", "anna", 3)) })
	}
	all.Wait()
	fmt.Println(balance["anna"], balance["ben"])
	// Output: 60 140
}

// While a program moves from one backend to another, it holds the lock on both.
func ExampleAcquireInOrder() {
	ctx := context.Background()
	old, recent := membackend.New(), membackend.New()
	defer old.Close()
	defer recent.Close()

	want := locker.Want{Name: "invoices"}
	leases, err := locker.AcquireInOrder(ctx, []locker.Item{{Locker: old, Want: want}, {Locker: recent, Want: want}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(leases.All()), "leases", leases.Err())
	fmt.Println(leases.Release(ctx))
	// Output:
	// 2 leases <nil>
	// <nil>
}

// Functions that take the lock their caller has get in again, in the same task.
func Example_reentrant() {
	l := middleware.Reentrant(membackend.New())
	defer l.Close()
	ctx := middleware.WithTask(context.Background())

	save := func(ctx context.Context) error {
		return locker.Do(ctx, l, "document", func(_ context.Context, lease locker.Lease) error {
			fmt.Println("saved with token > 0:", lease.Token() > 0)
			return nil
		})
	}
	err := locker.Do(ctx, l, "document", func(ctx context.Context, _ locker.Lease) error {
		return save(ctx)
	})
	fmt.Println(err)
	// Output:
	// saved with token > 0: true
	// <nil>
}

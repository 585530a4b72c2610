package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/otellocker"
)

// storage is where the invoices are. A real one is a database; see package fence.
var storage fence.Memory

// work has workers change invoices until ctx ends. There are fewer invoices than workers, so they
// wait for each other. Of all processes of this program, one is the clerk.
func work(ctx context.Context, l locker.Locker, workers int, log *slog.Logger) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				name := fmt.Sprintf("invoices/%d", rand.N(max(workers/2, 1)))
				if err := changeInvoice(ctx, l, name); err != nil && ctx.Err() == nil {
					log.Error("an invoice was not changed", "invoice", name, "error", err)
					pause(ctx, time.Second)
				}
			}
		})
	}
	all.Go(func() {
		err := leader.Run(ctx, l, "clerk", keepOrder, leader.WithObserver(otellocker.Leader("clerk"))) //nolint:contextcheck // metrics have no context
		log.Info("no clerk any more", "reason", err)
	})
	all.Wait()
}

// keepOrder is the work of the clerk.
func keepOrder(ctx context.Context, _ leader.Term) error {
	<-ctx.Done()
	return nil
}

func changeInvoice(ctx context.Context, l locker.Locker, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return locker.Do(ctx, l, name, func(ctx context.Context, _ locker.Lease) error {
		if err := claim(ctx, name); err != nil {
			return err
		}
		pause(ctx, 200*time.Millisecond+rand.N(time.Second)) // read, and think
		return claim(ctx, name)                              // and write, in the same step
	})
}

// claim says which lease works on an invoice. It is refused if a newer one does already.
func claim(ctx context.Context, name string) error {
	_, err := storage.ClaimFrom(ctx, name)
	return otellocker.CountClaim(ctx, err)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

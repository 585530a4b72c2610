// Leader elects one of several candidates: each candidate waits for the lock, leads until it loses
// the lock or resigns, and waits again. A leader that is cut off knows that it has lost the lock
// before another candidate can lead.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// campaign takes part in elections until ctx ends. lead must return when its context ends.
func campaign(ctx context.Context, l locker.Locker, lead func(context.Context, locker.Token) error) {
	for ctx.Err() == nil {
		err := locker.Do(ctx, l, "leader", func(ctx context.Context, lease locker.Lease) error {
			return lead(ctx, lease.Token())
		})
		switch {
		case errors.Is(err, locker.ErrLost):
			fmt.Println("lost the lead")
		case err == nil, ctx.Err() != nil:
		default: // the service failed; try again, but not at once
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	server := membackend.NewServer()
	terms := make(chan locker.Token)
	var candidates sync.WaitGroup
	for range 2 {
		candidates.Go(func() {
			l := membackend.New(membackend.WithServer(server))
			defer l.Close()
			campaign(ctx, l, func(ctx context.Context, term locker.Token) error {
				select {
				case terms <- term: // the token numbers the terms, because tokens only rise
				case <-ctx.Done():
				}
				<-ctx.Done() // lead until the lease ends
				return nil
			})
		})
	}

	first := <-terms
	server.Expire("leader") // as if the first one had been cut off
	second := <-terms
	fmt.Println("a new term has begun:", second > first)
	stop()
	candidates.Wait()
}

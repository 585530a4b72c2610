// Leader elects one of several candidates, and the next one when the first is cut off.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
)

func main() {
	server := membackend.NewServer()
	terms := make(chan leader.Term)
	ctx, stop := context.WithCancel(context.Background())
	var candidates sync.WaitGroup
	for range 2 {
		candidates.Go(func() {
			l := membackend.New(membackend.WithServer(server))
			defer l.Close()
			_ = leader.Run(ctx, l, "office", func(ctx context.Context, t leader.Term) error { // ctx's error, when the program stops
				terms <- t
				<-ctx.Done() // a real leader works here, and gives t.Number to its storage
				if errors.Is(t.Lease.Err(), locker.ErrLost) {
					fmt.Println("the term was lost")
				}
				return nil
			})
		})
	}
	first := <-terms
	server.Expire("office") // as if the leader had been cut off
	second := <-terms
	fmt.Println("a new term has begun:", second.Number > first.Number)
	stop()
	candidates.Wait()
}

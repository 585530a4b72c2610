package kit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

// A waiter looks at the state of its lock when a message has come, and after a second in case that
// a message was lost. It stops when its context ends.
func ExampleSignal() {
	var granted bool // a driver protects this by a mutex
	message := kit.NewSignal()
	wait := func(ctx context.Context) error {
		for !granted {
			if err := message.Wait(ctx, time.Second); err != nil {
				return err
			}
		}
		return nil
	}

	granted = true
	message.Set()
	fmt.Println(wait(context.Background()))

	granted = false
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	<-message // what was set above
	fmt.Println(wait(ctx))
	// Output:
	// <nil>
	// context canceled
}

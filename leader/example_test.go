package leader_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
)

// Run calls the function while this process leads. A program that gets SIGTERM ends ctx
// (signal.NotifyContext), and so hands over at once.
func ExampleRun() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	l := membackend.New() // or locker.Open
	defer l.Close()

	err := leader.Run(ctx, l, "controllers/billing", func(ctx context.Context, t leader.Term) error {
		fmt.Println("leads:", t.Number > 0)
		stop()
		<-ctx.Done() // the end of the program, or of the term
		return nil
	})
	fmt.Println(err)
	// Output:
	// leads: true
	// context canceled
}

// Stand is for a program that asks whether it leads, in place of being called.
func ExampleStand() {
	l := membackend.New()
	defer l.Close()
	c, err := leader.Stand(l, "controllers/billing")
	if err != nil {
		log.Fatal(err) // a bad name or option
	}
	defer c.Close()

	for {
		if term, leads := c.Leads(); leads {
			fmt.Println("leads:", term.Number > 0) // give the number to the storage with each write
			return
		}
		time.Sleep(time.Millisecond) // other work
	}
	// Output: leads: true
}

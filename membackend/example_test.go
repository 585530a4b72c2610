package membackend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// sendInvoices is the code under test: it works through a list while it holds a lock, and stops
// when the lease is lost.
func sendInvoices(
	ctx context.Context, l locker.Locker, work <-chan string, send func(invoice string, token locker.Token),
) error {
	return locker.Do(ctx, l, "invoices", func(ctx context.Context, lease locker.Lease) error {
		for {
			select {
			case invoice := <-work:
				send(invoice, lease.Token())
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

func Example() {
	l := membackend.New()
	defer l.Close()
	ctx := context.Background()

	lease, err := l.Acquire(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = locker.TryAcquire(ctx, l, "invoices")
	fmt.Println("second holder:", errors.Is(err, locker.ErrHeld))
	first := lease.Token()
	if err := lease.Release(ctx); err != nil {
		fmt.Println(err)
	}

	err = locker.Do(ctx, l, "invoices", func(_ context.Context, lease locker.Lease) error {
		fmt.Println("larger token:", lease.Token() > first)
		return nil
	})
	fmt.Println(err)
	// Output:
	// second holder: true
	// larger token: true
	// <nil>
}

// A test ends the lease of the code under test, and checks what happens.
func ExampleServer_Expire() {
	service := membackend.NewServer()
	l := membackend.New(membackend.WithServer(service))
	defer l.Close()

	work, sent, result := make(chan string), make(chan locker.Token), make(chan error)
	go func() {
		result <- sendInvoices(context.Background(), l, work, func(_ string, token locker.Token) { sent <- token })
	}()
	work <- "number 1" // it holds the lock now
	<-sent

	service.Expire("invoices")
	err := <-result
	fmt.Println("stopped because of the loss:", errors.Is(err, locker.ErrLost))
	fmt.Printf("left on the service: %q\n", service.Residue())
	// Output:
	// stopped because of the loss: true
	// left on the service: ""
}

// TestSendInvoicesStopsWhenCutOff is an example of a test in a bubble: two processes compete for a
// lock, one is cut off from the service, and half a minute passes at once.
func TestSendInvoicesStopsWhenCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, network := membackend.NewServer(), membackend.NewLink()
		one := membackend.New(membackend.WithServer(service), membackend.WithLink(network))
		two := membackend.New(membackend.WithServer(service))
		defer one.Close()
		defer two.Close()

		result := make(chan error, 1)
		go func() { result <- sendInvoices(t.Context(), one, nil, nil) }()
		synctest.Wait() // it holds the lock now

		network.Cut()
		start := time.Now()
		lease, err := two.Acquire(t.Context(), "invoices")
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited > 31*time.Second {
			t.Errorf("the second process waited %v, want about the TTL", waited)
		}
		select {
		case err := <-result:
			if !errors.Is(err, locker.ErrLost) {
				t.Errorf("the first process stopped with %v, want %v", err, locker.ErrLost)
			}
		default:
			t.Error("the first process works on, though the second has the lock")
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

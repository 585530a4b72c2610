package locker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/middleware"
)

// The first in the line gets the slot that another process takes again and again, also if it only
// looked at that one at first.
func TestPermitOfABusySlot(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T, s *membackend.Server) {
			const n = queuesOfTheFirst + 3
			link := membackend.NewLink()
			link.Delay(100*time.Microsecond, 100*time.Microsecond)
			l, near := openMem(t, s), openMem(t, s, membackend.WithLink(link))
			_, held := withPermits(t, l, n, n-1)
			busy, err := middleware.Prefix(near, "j") // another name here, as in another process: it doesn't know who waits
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil {
					_ = locker.DoPermit(ctx, busy, "ob", n, func(context.Context, locker.Lease) error {
						time.Sleep(100 * time.Millisecond)
						return nil
					})
				}
			}()
			time.Sleep(time.Second)
			began := time.Now()
			lease, err := locker.AcquirePermit(t.Context(), l, "job", n)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 6*time.Second {
				t.Errorf("a slot that is released ten times a second was got after %v", took)
			}
			cancel()
			<-ended
			release(t, append(held, lease)...)
		})
	}
}

// A longest hold that is over at the grant is over at each further one, too.
func TestPermitOfAMoment(t *testing.T) {
	s := membackend.NewServer()
	l := openMem(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	lease, err := locker.AcquirePermit(ctx, l, "job", 1, locker.WithMaxHold(time.Nanosecond))
	if err != nil {
		t.Fatalf("AcquirePermit = %v, want a lease, as from Acquire", err)
	}
	if err := lease.Err(); !errors.Is(err, locker.ErrMaxHold) {
		t.Errorf("Err = %v, want ErrMaxHold", err)
	}
}

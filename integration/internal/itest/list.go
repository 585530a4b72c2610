//go:build unix

package itest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// ListTarget is a service whose locks are listed.
type ListTarget struct {
	Open     func() locker.Locker
	Names    bool                                         // a list by the beginning of the names is possible
	TTL      time.Duration                                // of the leases; 0: listTTL
	Requests func() int64                                 // that the service has got so far
	Hold     func(ctx context.Context, name string) error // nil: by a Locker
	ByHand   func(ctx context.Context) (n int, e error)   // reads what a list has to read, with the client alone; n locks
}

// List lists more locks than a page has: each of them is shown once. With LOCKER_SOAK it lists
// 10,000. The time that a list takes is logged, next to the time of the same reads by hand, in the
// same rounds.
func List(t *testing.T, s ListTarget) {
	t.Helper()
	want, rounds := 1200, 1
	if os.Getenv("LOCKER_SOAK") != "" {
		want, rounds = 10_000, 11
	}
	l, looker, base := step.CloseAtEnd(t, s.Open()), step.CloseAtEnd(t, s.Open()), step.LockName(t)
	hold := s.Hold
	if hold == nil {
		hold = func(ctx context.Context, name string) error {
			_, err := l.Acquire(ctx, name, locker.NoWait(), locker.WithTTL(cmp.Or(s.TTL, listTTL)))
			return err
		}
	}
	jobs := make(chan int, want)
	for i := range want {
		jobs <- i
	}
	close(jobs)
	step.Contend(t, 32, 1, func(ctx context.Context, _ int) error {
		for i := range jobs {
			if err := hold(ctx, fmt.Sprintf("%s/%d", base, i)); err != nil {
				return err
			}
		}
		return nil
	})
	prefix := ""
	if s.Names {
		prefix = base + "/"
	}
	var lists, byHand []time.Duration
	for range rounds {
		before, began, seen := s.Requests(), time.Now(), make(map[string]bool)
		for s, err := range locker.List(t.Context(), looker, prefix, 1) {
			if err != nil {
				t.Fatalf("List = %v", err)
			}
			if s.Holder == nil || seen[s.Key] {
				t.Errorf("List shows %+v without a holder, or twice", s)
			}
			seen[s.Key] = true
		}
		lists = append(lists, time.Since(began))
		requests := s.Requests() - before
		if len(seen) < want || s.Names && len(seen) > want {
			t.Errorf("List shows %d locks, want %d", len(seen), want)
		}
		began = time.Now()
		n, err := s.ByHand(t.Context())
		if err != nil || n < want {
			t.Fatalf("by hand %d locks, %v, want %d", n, err, want)
		}
		byHand = append(byHand, time.Since(began))
		t.Logf("a list of %d locks: %v, %d requests with the renewals in that time; by hand %v", len(seen), lists[len(lists)-1], requests, byHand[len(byHand)-1])
	}
	var ratios []float64
	for i := range lists {
		ratios = append(ratios, lists[i].Seconds()/byHand[i].Seconds())
	}
	slices.Sort(lists)
	slices.Sort(byHand)
	slices.Sort(ratios)
	t.Logf("of %d lists: median %v, least %v; by hand: median %v, least %v; ratio in one round: median %.2f",
		rounds, lists[rounds/2], lists[0], byHand[rounds/2], byHand[0], ratios[rounds/2])
}

// listTTL is long, so that renewals disturb a list little. The longest on ZooKeeper is 37 s by default.
const listTTL = 30 * time.Second

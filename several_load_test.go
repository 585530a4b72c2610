package locker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// Random sets of twelve locks, by eight goroutines in four Lockers: nobody is stuck, nobody is in with another
// holder, and nothing is left.
func TestRandomSetsAreNeverStuck(t *testing.T) {
	total := 10_000
	if testing.Short() {
		total = 2_000
	}
	bubble(t, func(t *testing.T, s *membackend.Server) {
		lockers := make([]locker.Locker, 4)
		for i := range lockers {
			lockers[i] = openMem(t, s)
		}
		var holders [12]atomic.Int32
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(7, uint64(g)))
				for range total / 8 {
					var wants []locker.Want
					picked := random.Perm(len(holders))[:1+random.IntN(5)]
					for _, i := range picked {
						wants = append(wants, locker.Want{Name: fmt.Sprint("account-", i)})
					}
					err := locker.DoAll(t.Context(), lockers[g%4], wants, func(context.Context, *locker.LeaseSet) error {
						for _, i := range picked {
							if n := holders[i].Add(1); n != 1 {
								t.Errorf("%d hold a lock", n)
							}
						}
						for _, i := range picked {
							holders[i].Add(-1)
						}
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		t.Logf("%d calls of AcquireAll, %.1f requests for each, with its releases", total, float64(s.Requests())/float64(total))
	})
}

// Calls that give up at any moment leave nothing and disturb nobody.
func TestAcquireAllThatGivesUpAtAnyMoment(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		lockers := []locker.Locker{openMem(t, s), openMem(t, s)}
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(11, uint64(g)))
				for range 200 {
					ctx, cancel := context.WithCancel(t.Context())
					left := make(chan struct{})
					go func() {
						defer close(left)
						for range random.IntN(40) {
							_ = ctx.Err() // some steps of the other goroutines
						}
						cancel()
					}()
					leases, err := locker.AcquireAll(ctx, lockers[g%2], locker.Wants("c", "a", "b"))
					<-left
					if err == nil {
						err = leases.Release(ctx)
						if err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
		wantEventuallyFree(t, s, "a", "b", "c")
	})
}

func wantEventuallyFree(t *testing.T, s *membackend.Server, names ...string) {
	t.Helper()
	l := membackend.New(membackend.WithServer(s))
	defer l.Close()
	for _, name := range names {
		lease, err := l.Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
)

// alone acquires and releases a free lock, again and again.
func (b *bench) alone(ctx context.Context) error { return b.cycles(ctx, "alone", 1) }

// many does so in many goroutines, each with a lock of its own.
func (b *bench) many(ctx context.Context) error { return b.cycles(ctx, "many", b.Goroutines) }

func (b *bench) cycles(ctx context.Context, scenario string, goroutines int) error {
	l, r, err := b.open(ctx, locker.EventGranted|locker.EventReleased)
	if err != nil {
		return err
	}
	counts, took, err := b.load(ctx, goroutines, func(ctx context.Context, i int, budget *budget) (int, error) {
		return b.cycle(ctx, l, fmt.Sprintf("%s%s/%d", b.Prefix, scenario, i), budget)
	})
	b.close(l)
	if err != nil {
		return err
	}
	o := r.take()
	b.add(Result{Scenario: scenario, Figures: slices.Concat([]Figure{
		{"goroutines", float64(goroutines), ""},
		{"cycles", float64(total(counts)) / took.Seconds(), "1/s"},
	}, times("acquire", o.acquire), times("release", o.release), dropped(l))}, uneven(scenario, o.acquire)...)
	return nil
}

// load calls f in n goroutines, with one budget, and returns how many cycles each has made. When one
// of them fails, or the service doesn't answer for long, all end.
func (b *bench) load(
	ctx context.Context, n int, f func(ctx context.Context, i int, budget *budget) (int, error),
) (counts []int, took time.Duration, err error) {
	budget := newBudget(b.For)
	limited, cancel := context.WithTimeout(ctx, b.For+b.ttl+patience)
	defer cancel()
	counts = make([]int, n)
	errs := make(chan error, n)
	var ended sync.WaitGroup
	for i := range n {
		ended.Go(func() {
			var err error
			if counts[i], err = f(limited, i, budget); err != nil {
				errs <- err
				cancel()
			}
		})
	}
	ended.Wait()
	select {
	case err = <-errs: // the first one; the others failed because limited has ended
	default:
		err = ctx.Err()
	}
	return counts, time.Since(budget.began), err
}

func total(counts []int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// cycle acquires and releases one lock while the budget lasts.
func (b *bench) cycle(ctx context.Context, l locker.Locker, name string, budget *budget) (cycles int, err error) {
	for budget.take(ctx) {
		lease, err := l.Acquire(ctx, name, b.options()...)
		if err == nil {
			err = lease.Release(ctx)
		}
		if err != nil {
			return cycles, err
		}
		cycles++
	}
	return cycles, nil
}

// dropped is a figure for events that nobody has counted, if there are any: a service that is as
// fast as this has more of them than can be looked at. The times are of the events that were seen.
func dropped(l locker.Locker) []Figure {
	s, ok := locker.StatsOf(l)
	if !ok || s.EventsDropped == 0 {
		return nil
	}
	return []Figure{{"events not seen", float64(s.EventsDropped), ""}}
}

// budget bounds a load in number and time.
type budget struct {
	began time.Time
	end   time.Time
	count atomic.Int64
}

func newBudget(d time.Duration) *budget {
	now := time.Now()
	return &budget{began: now, end: now.Add(d)}
}

// take reports whether there is another cycle.
func (b *budget) take(ctx context.Context) bool {
	return ctx.Err() == nil && time.Now().Before(b.end) && b.count.Add(1) <= maxCycles
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
)

// held holds many leases for a while, and lists them.
func (b *bench) held(ctx context.Context) error {
	l, r, err := b.open(ctx, locker.EventRenewed|locker.EventRenewalFailed)
	if err != nil {
		return err
	}
	defer func() { b.close(l) }()
	heap, goroutines := footprint()
	began := time.Now()
	leases, missing := b.hold(ctx, l)
	acquired := time.Since(began)
	if len(leases) == 0 {
		return missing
	}
	timer := time.NewTimer(heldFor(b.ttl, b.For))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	moreHeap, moreGoroutines := footprint()
	look, lookErr := b.look(ctx, l)
	stats, _ := locker.StatsOf(l)
	began = time.Now()
	b.each(len(leases), func(i int) bool {
		_ = leases[i].Release(ctx) // Close says so, if that isn't confirmed
		return true
	})
	released := time.Since(began)
	b.close(l) // what it returns is returned again
	o := r.take()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	res := Result{Scenario: "held", Figures: []Figure{
		{"leases", float64(len(leases)), ""}, span("acquired in", acquired), span("released in", released),
		{"heap", float64(max(moreHeap-heap, 0)), "B"}, {"goroutines", float64(moreGoroutines - goroutines), ""},
	}}
	if b.ttl > 0 {
		res.Figures = append(res.Figures, Figure{"slack p1", o.slack.quantile(.01), ""}, Figure{"slack min", o.slack.quantile(0), ""},
			Figure{"renewals", float64(stats.Renewed), ""}, Figure{"failed renewals", float64(stats.RenewalsFailed), ""})
	}
	res.Figures = append(append(res.Figures, Figure{"lost", float64(sum(stats.Lost)), ""}), dropped(l)...)
	b.add(res, b.health(o, stats, len(leases), missing)...)
	b.add(look, b.lookVerdict(lookErr)...)
	return nil
}

// heldFor is how long leases are held: each of them is renewed three times, or some time passes if
// nothing has to be renewed.
func heldFor(ttl, otherwise time.Duration) time.Duration {
	if ttl == 0 {
		return otherwise
	}
	return ttl + ttl/5
}

// acquireLimit is how long it may take to acquire all leases.
const acquireLimit = 2 * time.Minute

// hold acquires the leases. If there are fewer than there should be, missing says why.
func (b *bench) hold(ctx context.Context, l locker.Locker) (leases []locker.Lease, missing error) {
	var mu sync.Mutex
	ctx, cancel := context.WithTimeout(ctx, acquireLimit)
	defer cancel()
	b.each(b.Leases, func(i int) bool {
		lease, err := l.Acquire(ctx, fmt.Sprintf("%sheld/%d", b.Prefix, i), append(b.options(), locker.NoWait())...)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			missing = err
			return false
		}
		leases = append(leases, lease)
		return true
	})
	return leases, missing
}

// each calls f for the numbers below n, in many goroutines, until it returns false.
func (b *bench) each(n int, f func(i int) bool) {
	var next atomic.Int64
	var ended sync.WaitGroup
	for range min(b.Goroutines, n) {
		ended.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if !f(i) {
					next.Store(int64(n))
					return
				}
			}
		})
	}
	ended.Wait()
}

// footprint is how much heap this process uses, and how many goroutines it has.
func footprint() (heap int64, goroutines int) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one frees what has a finalizer, or is in a pool, not yet
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), runtime.NumGoroutine()
}

// look lists the locks. Where names below a prefix aren't known it lists all.
func (b *bench) look(ctx context.Context, l locker.Locker) (Result, error) {
	res := Result{Scenario: "look"}
	for _, prefix := range []string{b.Prefix, ""} {
		began, n := time.Now(), 0
		var err error
		for _, listErr := range locker.List(ctx, l, prefix, 0) {
			if err = listErr; err == nil {
				n++
			}
		}
		if err == nil {
			res.Figures = []Figure{{"locks", float64(n), ""}, span("took", time.Since(began))}
			return res, nil
		}
		res.Skipped = err.Error()
		if !errors.Is(err, errors.ErrUnsupported) {
			return res, err
		}
	}
	return res, nil
}

func sum(counts map[string]uint64) (n uint64) {
	for _, count := range counts {
		n += count
	}
	return n
}

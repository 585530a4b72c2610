package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

const leaseCount = 10_000

var heldLeasesName = fmt.Sprintf("%d held leases", leaseCount)

// measureAllHeldLeases measures what many held leases cost a process. A peer for which there is no
// time is left out.
func (m measurement) measureAllHeldLeases(ctx context.Context, until time.Time) error {
	first := metric{name: "heap", unit: "MB", once: true}
	for _, p := range m.selected(m.heldLeases) {
		limit := time.Until(until)
		if limit < p.renewInterval {
			m.miss(p.name, heldLeasesName, first, fmt.Sprintf("it takes more than %s, and there is time for %s",
				p.renewInterval, short(max(limit, 0))))
			continue
		}
		// Acquiring may take as long again.
		_, err := within(ctx, limit+p.renewInterval, func(ctx context.Context) (none struct{}, err error) {
			return none, m.measureHeldLeases(ctx, p)
		})
		if err := m.tolerate(p, err); err != nil {
			return err
		}
		if err != nil {
			m.miss(p.name, heldLeasesName, first, why(err))
		}
	}
	return nil
}

func (m measurement) measureHeldLeases(ctx context.Context, p peer) error {
	cl, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer cl.close()
	if _, err := cl.load(ctx, leasesAtOnce, warmUp, 10*time.Second); err != nil { // also connects
		return err
	}
	heap, routines := heapInUse(), runtime.NumGoroutine()
	held, err := cl.lockMany(ctx)
	if err != nil {
		return err
	}
	m.add(p.name, heldLeasesName, 0, metric{name: "heap", unit: "MB", once: true}, float64(heapInUse()-heap)/1e6, 0)
	if err := m.watchRenewals(ctx, p, cl, routines); err != nil {
		return err
	}
	return concurrently(leasesAtOnce, func(i int) error {
		for ; i < len(held); i += leasesAtOnce {
			if err := held[i](ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// watchRenewals counts the requests that are sent while the program does nothing, for as long as it
// takes to renew each lease once: the rate over any longer time is the same on average. The TTL is
// the usual one of 30 s.
func (m measurement) watchRenewals(ctx context.Context, p peer, cl *client, routines int) error {
	select {
	case <-time.After(cl.settle):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	began := time.Now()
	before, err := m.requestsOf(ctx, p)
	if err != nil {
		return err
	}
	before += cl.requestsSoFar()
	messages := int64(0)
	if cl.messages != nil {
		messages = cl.messages()
	}
	peak := runtime.NumGoroutine()
	for time.Since(began) < p.renewInterval && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
		peak = max(peak, runtime.NumGoroutine())
	}
	after, err := m.requestsOf(ctx, p)
	if err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	m.add(p.name, heldLeasesName, 0, metric{name: "goroutines", once: true}, float64(peak-routines), 0)
	m.add(p.name, heldLeasesName, 0, metric{name: "renewals", unit: "1/s", once: true}, float64(after+cl.requestsSoFar()-before)/seconds, 0)
	if cl.messages != nil {
		m.add(p.name, heldLeasesName, 0, metric{name: "round trips", unit: "1/s", once: true}, float64(cl.messages()-messages)/seconds, 0)
	}
	return nil
}

// leasesAtOnce is how many leases are acquired and released at the same time.
const leasesAtOnce = 64

func (c *client) lockMany(ctx context.Context) ([]release, error) {
	held := make([]release, leaseCount)
	err := concurrently(leasesAtOnce, func(i int) (err error) {
		for ; i < leaseCount && err == nil; i += leasesAtOnce {
			held[i], err = c.lock(ctx, fmt.Sprint("held-", i))
		}
		return err
	})
	return held, err
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // frees what the first collection found to have finished
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

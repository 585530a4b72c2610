package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const waiterCount = 10_000

// processes is over how many clients they are spread.
var lockerCounts = []int{1, 10}

func waitersName(n int) string {
	if n == 1 {
		return fmt.Sprintf("%d waiters in one Locker", waiterCount)
	}
	return fmt.Sprintf("%d waiters in %d Lockers", waiterCount, n)
}

// crowdGoals are the same for all backends.
func waitersGoals(n int) []goal {
	return []goal{
		{scenario: waitersName(n), metric: "served", atLeast: true, limit: waiterCount},
		{scenario: waitersName(n), metric: "within", limit: 30},
		{scenario: waitersName(n), metric: "requests a grant", limit: 4},
	}
}

// runCrowds measures how long a lock takes to go through a crowd that waits for it, each once.
func (m measurement) runWaiters(ctx context.Context) error {
	for _, n := range lockerCounts {
		for _, c := range m.selected(waitersName(n), m.waiterPeers) {
			if err := m.tolerate(c, m.measureWaiters(ctx, n, c)); err != nil {
				return fmt.Errorf("%s: %w", waitersName(n), err)
			}
		}
	}
	return nil
}

// gathering is how long the crowd has to queue, when all have asked, before the first gets the lock.
const queueingTime = 2 * time.Second

func (m measurement) measureWaiters(ctx context.Context, n int, c peer) error {
	clients, err := c.openAll(ctx, n)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	runtime.GC()
	name := fmt.Sprint("waiters-", n)
	releaseFirst, err := clients[0].lock(ctx, name)
	if err != nil {
		return err
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	var started sync.WaitGroup
	started.Add(waiterCount)
	var served, last atomic.Int64 // how many, and when the last of them, in nanoseconds since start
	var releasedAt, before int64
	start := time.Now()
	err = concurrently(waiterCount+1, func(i int) (err error) {
		if i == waiterCount {
			started.Wait()
			time.Sleep(queueingTime)
			if before, err = m.requestsOf(ctx, c); err != nil {
				return err
			}
			defer time.AfterFunc(m.schedule.waitersTime, cancel)
			releasedAt = int64(time.Since(start))
			return releaseFirst(ctx)
		}
		started.Done()
		release, err := clients[i%n].lock(limited, name)
		if err != nil {
			return nil // it was not served, and is missing below
		}
		last.Store(int64(time.Since(start)))
		served.Add(1)
		return release(ctx)
	})
	if err != nil {
		return err
	}
	after, err := m.requestsOf(ctx, c)
	if err != nil {
		return err
	}
	scenario := waitersName(n)
	m.add(c.name, scenario, 0, metric{name: "served"}, float64(served.Load()), 0)
	m.add(c.name, scenario, 0, metric{name: "within", unit: "s"}, time.Duration(last.Load()-releasedAt).Seconds(), 0)
	m.add(c.name, scenario, 0, metric{name: "requests a grant"}, float64(after-before)/float64(served.Load()), 0)
	return nil
}

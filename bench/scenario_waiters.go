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

// lockerCounts are the numbers of clients among which the waiters are divided.
var lockerCounts = []int{1, 10}

func waitersName(n int) string {
	if n == 1 {
		return fmt.Sprintf("%d waiters in one Locker", waiterCount)
	}
	return fmt.Sprintf("%d waiters in %d Lockers", waiterCount, n)
}

// waitersGoals returns the goals for n Lockers. They are the same for most backends.
func waitersGoals(n int) []goal {
	return []goal{
		{scenario: waitersName(n), metric: "served", atLeast: true, limit: waiterCount},
		{scenario: waitersName(n), metric: "within", limit: 30},
		{scenario: waitersName(n), metric: "requests a grant", limit: 4},
	}
}

// runWaiters measures how long it takes until each of many waiters for one lock has had it once.
func (m measurement) runWaiters(ctx context.Context) error {
	for _, n := range lockerCounts {
		for _, p := range m.selected(waitersName(n), m.waiterPeers) {
			if err := m.tolerate(p, m.measureWaiters(ctx, n, p)); err != nil {
				return fmt.Errorf("%s: %w", waitersName(n), err)
			}
		}
	}
	return nil
}

// queueingTime is the time between the last call of lock and the first release, in which all
// waiters enter the queue.
const queueingTime = 2 * time.Second

func (m measurement) measureWaiters(ctx context.Context, n int, p peer) error {
	clients, err := p.openAll(ctx, n)
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
	var served, last atomic.Int64 // how many waiters, and when the last one, in ns since start
	var releasedAt, before int64
	start := time.Now()
	err = concurrently(waiterCount+1, func(i int) (err error) {
		if i == waiterCount {
			started.Wait()
			time.Sleep(queueingTime)
			if before, err = m.requestsOf(ctx, p); err != nil {
				return err
			}
			defer time.AfterFunc(m.schedule.waitersTime, cancel)
			releasedAt = int64(time.Since(start))
			return releaseFirst(ctx)
		}
		started.Done()
		release, err := clients[i%n].lock(limited, name)
		if err != nil {
			return nil // this waiter was not served, and is missing in the count
		}
		last.Store(int64(time.Since(start)))
		served.Add(1)
		return release(ctx)
	})
	if err != nil {
		return err
	}
	after, err := m.requestsOf(ctx, p)
	if err != nil {
		return err
	}
	scenario := waitersName(n)
	m.add(p.name, scenario, 0, metric{name: "served"}, float64(served.Load()), 0)
	m.add(p.name, scenario, 0, metric{name: "within", unit: "s"}, time.Duration(last.Load()-releasedAt).Seconds(), 0)
	m.add(p.name, scenario, 0, metric{name: "requests a grant"}, float64(after-before)/float64(served.Load()), 0)
	return nil
}

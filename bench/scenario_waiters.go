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

// longestService is how long the waiters get to be served; less if there is less time.
const longestService = 30 * time.Second

// measureAllWaiters measures how long it takes until each of many waiters for one lock has had it
// once.
func (m measurement) measureAllWaiters(ctx context.Context, n int, until time.Time) error {
	list := m.selected(m.waiters)
	for i, p := range list {
		// Half of a peer's time is for the waiters, the other half for what comes before and after.
		service := min(longestService, time.Until(until)/time.Duration(2*(len(list)-i)))
		if service < time.Second {
			m.miss(p.name, waitersName(n), served, "no time left")
			continue
		}
		_, err := within(ctx, queueingTime+2*service+hangTime, func(ctx context.Context) (none struct{}, err error) {
			return none, m.measureWaiters(ctx, n, p, service)
		})
		if err := m.tolerate(p, err); err != nil {
			return err
		}
		if err != nil {
			m.miss(p.name, waitersName(n), served, why(err))
		}
	}
	return nil
}

var (
	served     = metric{name: "served", once: true}
	lastServed = metric{name: "within", unit: "s", once: true}
)

// queueingTime is the time between the last call of lock and the first release, in which all
// waiters enter the queue.
const queueingTime = 2 * time.Second

func (m measurement) measureWaiters(ctx context.Context, n int, p peer, service time.Duration) error {
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
	var count, last atomic.Int64 // how many waiters, and when the last one, in ns since start
	var releasedAt, before int64
	start := time.Now()
	err = concurrently(waiterCount+1, func(i int) (err error) {
		if i == waiterCount {
			started.Wait()
			time.Sleep(queueingTime)
			if before, err = m.requestsOf(ctx, p); err != nil {
				return err
			}
			before += counted(clients)
			defer time.AfterFunc(service, cancel)
			releasedAt = int64(time.Since(start))
			return releaseFirst(ctx)
		}
		started.Done()
		release, err := clients[i%n].lock(limited, name)
		if err != nil {
			return nil // this waiter was not served, and is missing in the count
		}
		last.Store(int64(time.Since(start)))
		count.Add(1)
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
	switch n := count.Load(); {
	case n == waiterCount:
		m.add(p.name, scenario, 0, served, float64(n), 0)
		m.add(p.name, scenario, 0, lastServed, time.Duration(last.Load()-releasedAt).Seconds(), 0)
	case service == longestService:
		m.add(p.name, scenario, 0, served, float64(n), 0)
		m.miss(p.name, scenario, lastServed, fmt.Sprintf("not all in %v", service))
	default: // nobody knows whether the others would have been
		cause := fmt.Sprintf("%d in %v, and there was no time for more", n, service.Round(100*time.Millisecond))
		m.miss(p.name, scenario, served, cause)
		m.miss(p.name, scenario, lastServed, cause)
	}
	m.add(p.name, scenario, 0, metric{name: "requests a grant", once: true}, float64(after+counted(clients)-before)/float64(count.Load()), 0)
	return nil
}

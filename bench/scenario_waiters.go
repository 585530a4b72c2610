package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const waiters = 10_000

// processes is over how many clients they are spread.
var processes = []int{1, 10}

func crowdName(n int) string {
	if n == 1 {
		return fmt.Sprintf("%d waiters in one Locker", waiters)
	}
	return fmt.Sprintf("%d waiters in %d Lockers", waiters, n)
}

// crowdGoals are the same for all backends.
func crowdGoals(n int) []goal {
	return []goal{
		{scenario: crowdName(n), metric: "served", atLeast: true, limit: waiters},
		{scenario: crowdName(n), metric: "within", limit: 30},
		{scenario: crowdName(n), metric: "requests a grant", limit: 4},
	}
}

// runCrowds measures how long a lock takes to go through a crowd that waits for it, each once.
func (m measurement) runCrowds(ctx context.Context) error {
	for _, n := range processes {
		for _, c := range m.wanted(crowdName(n), m.crowds) {
			if err := m.forgive(c, m.runCrowd(ctx, n, c)); err != nil {
				return fmt.Errorf("%s: %w", crowdName(n), err)
			}
		}
	}
	return nil
}

// gathering is how long the crowd has to queue, when all have asked, before the first gets the lock.
const gathering = 2 * time.Second

func (m measurement) runCrowd(ctx context.Context, n int, c contestant) error {
	clients, err := c.openAll(ctx, n)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	runtime.GC()
	name := fmt.Sprint("crowd-", n)
	open, err := clients[0].lock(ctx, name)
	if err != nil {
		return err
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	var asking sync.WaitGroup
	asking.Add(waiters)
	var served, last atomic.Int64 // how many, and when the last of them, in nanoseconds since start
	var opened, before int64
	start := time.Now()
	err = together(waiters+1, func(i int) (err error) {
		if i == waiters {
			asking.Wait()
			time.Sleep(gathering)
			if before, err = m.asked(ctx, c); err != nil {
				return err
			}
			defer time.AfterFunc(m.effort.crowd, cancel)
			opened = int64(time.Since(start))
			return open(ctx)
		}
		asking.Done()
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
	after, err := m.asked(ctx, c)
	if err != nil {
		return err
	}
	scenario := crowdName(n)
	m.add(c.name, scenario, 0, metric{name: "served"}, float64(served.Load()), 0)
	m.add(c.name, scenario, 0, metric{name: "within", unit: "s"}, time.Duration(last.Load()-opened).Seconds(), 0)
	m.add(c.name, scenario, 0, metric{name: "requests a grant"}, float64(after-before)/float64(served.Load()), 0)
	return nil
}

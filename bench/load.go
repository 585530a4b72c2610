package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// goroutines is by how many at once locks are taken and given back.
var goroutines = []int{1, 4, 64, 512}

func loadName(n int) string {
	if n == 1 {
		return "acquire + release alone"
	}
	return fmt.Sprintf("acquire + release, %d goroutines", n)
}

// runLoads measures acquire + release of locks that nobody else wants, each goroutine one of its own.
func (m measurement) runLoads(ctx context.Context) error {
	for _, n := range goroutines {
		if err := m.runLoad(ctx, n); err != nil {
			return fmt.Errorf("%s: %w", loadName(n), err)
		}
	}
	return nil
}

func (m measurement) runLoad(ctx context.Context, n int) error {
	scenario := loadName(n)
	list := m.wanted(scenario, m.loads)
	if len(list) == 0 {
		return nil
	}
	list = slices.Concat([]contestant{m.bare, m.byHand}, list)
	clients := make([]*client, 0, len(list))
	defer func() { closeAll(clients) }()
	for _, c := range list {
		cl, err := c.open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		clients = append(clients, cl)
		_, err = cl.load(ctx, n, m.effort.load/2) // connects, and warms up
		if err := m.forgive(c, err); err != nil {
			return err
		}
	}
	rate := metric{"throughput", "ops/s", m.byHand.name}
	p50 := metric{"median", "µs", m.bare.name}
	p99 := metric{"p99", "µs", m.bare.name + "'s median"}
	for range m.effort.rounds {
		var bare, byHand sample
		for i, cl := range clients {
			s, err := cl.load(ctx, n, m.effort.load)
			if err := m.forgive(list[i], err); err != nil {
				return err
			}
			if err != nil {
				continue
			}
			switch i {
			case 0:
				bare = s
			case 1:
				byHand = s
			}
			m.add(list[i].name, scenario, rate, s.rate, s.rate/byHand.rate)
			m.add(list[i].name, scenario, p50, micros(s.p50), s.p50/bare.p50)
			m.add(list[i].name, scenario, p99, micros(s.p99), s.p99/bare.p50)
		}
	}
	return nil
}

// sample is what a round of acquire + release has brought.
type sample struct {
	rate     float64 // a second
	p50, p99 float64 // nanoseconds
}

// load takes and gives back locks by n goroutines at once, for about d. It fails when that takes much longer.
func (c *client) load(ctx context.Context, n int, d time.Duration) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, d+10*time.Second)
	defer cancel()
	runtime.GC() // what another has left is not to be collected at the cost of this one
	took := make([][]time.Duration, n)
	var over atomic.Bool
	began := time.Now()
	timer := time.AfterFunc(d, func() { over.Store(true) })
	defer timer.Stop()
	err := together(n, func(i int) error {
		name := fmt.Sprint("load-", i)
		for now := time.Now(); !over.Load(); {
			release, err := c.lock(ctx, name)
			if err == nil {
				err = release(ctx)
			}
			if err != nil {
				over.Store(true)
				return err
			}
			then := now
			now = time.Now()
			took[i] = append(took[i], now.Sub(then))
		}
		return nil
	})
	all := slices.Concat(took...)
	if err == nil && len(all) == 0 {
		err = errors.New("nothing was done in time")
	}
	return sample{
		rate: float64(len(all)) / time.Since(began).Seconds(),
		p50:  percentile(all, 50),
		p99:  percentile(all, 99),
	}, err
}

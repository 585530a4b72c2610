package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// goroutines is by how many at once locks are taken and given back.
var goroutineCounts = []int{1, 4, 64, 512}

func loadName(n int) string {
	if n == 1 {
		return "acquire + release alone"
	}
	return fmt.Sprintf("acquire + release, %d goroutines", n)
}

// runLoads measures acquire + release of locks that nobody else wants, each goroutine one of its own.
func (m measurement) runLoads(ctx context.Context) error {
	for _, n := range goroutineCounts {
		if err := m.measureLoad(ctx, n); err != nil {
			return fmt.Errorf("%s: %w", loadName(n), err)
		}
	}
	return nil
}

func (m measurement) measureLoad(ctx context.Context, n int) error {
	scenario := loadName(n)
	list := m.selected(scenario, m.loadPeers)
	if len(list) == 0 {
		return nil
	}
	list = slices.Concat([]peer{m.bare, m.byHand}, list)
	clients := make([]*client, 0, len(list))
	defer func() { closeAll(clients) }()
	for _, c := range list {
		cl, err := c.open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		clients = append(clients, cl)
		_, err = cl.load(ctx, n, warmUp) // connects
		if err := m.tolerate(c, err); err != nil {
			return err
		}
	}
	for round := range m.schedule.loadRounds {
		if err := m.loadRound(ctx, scenario, round, n, list, clients); err != nil {
			return err
		}
	}
	return nil
}

// loadRound lets all take their turn. The first two of list are what the others are compared with.
func (m measurement) loadRound(ctx context.Context, scenario string, round, n int, list []peer, clients []*client) error {
	var bare, byHand sample
	for i, cl := range clients {
		var s sample
		use, err := m.disturbance.measureUndisturbed(ctx, func() (err error) {
			s, err = cl.load(ctx, n, m.schedule.loadTime)
			return err
		})
		if err := m.tolerate(list[i], err); err != nil {
			return err
		}
		s.clientCPU, s.serverCPU = use.client.perOperation(s.n), use.server.perOperation(s.n)
		switch i {
		case 0:
			bare = s
		case 1:
			byHand = s
		}
		add := func(what metric, value, base float64) { m.add(list[i].name, scenario, round, what, value, base) }
		add(metric{"throughput", "ops/s", m.byHand.name}, s.rate, byHand.rate)
		add(metric{"median", "µs", m.bare.name}, s.p50, bare.p50)
		add(metric{"p99", "µs", m.bare.name + "'s median"}, s.p99, bare.p50)
		// These depend less than the others on what else the machine does, and say which side is busy when there is a lot to do.
		add(metric{"CPU of the client", "µs", m.byHand.name}, s.clientCPU, byHand.clientCPU)
		add(metric{"CPU of the server", "µs", m.byHand.name}, s.serverCPU, byHand.serverCPU)
	}
	return nil
}

// sample is what a round of acquire + release has brought.
type sample struct {
	n                    int     // how often
	rate                 float64 // a second
	p50, p99             float64 // µs
	clientCPU, serverCPU float64 // µs of a CPU, for each
}

// load takes and gives back locks by n goroutines at once, for d. What is under way then is no part of the rate, as there is less
// and less of it. It fails when that takes much longer.
func (c *client) load(ctx context.Context, n int, d time.Duration) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, d+10*time.Second)
	defer cancel()
	runtime.GC() // what another has left is not to be collected at the cost of this one
	durations := make([][]float64, n)
	var inTime atomic.Int64
	end := time.Now().Add(d)
	err := concurrently(n, func(i int) error {
		name := fmt.Sprint("load-", i)
		for {
			began := time.Now()
			release, err := c.lock(ctx, name)
			if err == nil {
				err = release(ctx)
			}
			if err != nil {
				return err
			}
			now := time.Now()
			durations[i] = append(durations[i], micros(now.Sub(began)))
			if now.After(end) {
				return nil
			}
			inTime.Add(1)
		}
	})
	if err != nil {
		return sample{rate: math.NaN(), p50: math.NaN(), p99: math.NaN()}, err
	}
	all := slices.Concat(durations...)
	p50, p99 := quantiles(all)
	return sample{n: len(all), rate: float64(inTime.Load()) / d.Seconds(), p50: p50, p99: p99}, nil
}

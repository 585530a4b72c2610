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

// goroutineCounts are the numbers of goroutines that acquire and release locks at the same time.
var goroutineCounts = []int{1, 4, 64, 512}

func loadName(n int) string {
	if n == 1 {
		return "acquire + release alone"
	}
	return fmt.Sprintf("acquire + release, %d goroutines", n)
}

// runLoads measures acquire + release: each goroutine has its own lock, which nobody else wants.
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
	for _, p := range list {
		cl, err := p.open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		clients = append(clients, cl)
		_, err = cl.load(ctx, n, warmUp) // also connects
		if err := m.tolerate(p, err); err != nil {
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

// loadRound measures each peer once. The first two of list are what the others are compared with.
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
		// CPU times depend less than the other metrics on other work on the machine, and show which
		// side is busy under load.
		add(metric{"CPU of the client", "µs", m.byHand.name}, s.clientCPU, byHand.clientCPU)
		add(metric{"CPU of the server", "µs", m.byHand.name}, s.serverCPU, byHand.serverCPU)
	}
	return nil
}

// sample is the outcome of one peer in one round of acquire + release.
type sample struct {
	n                    int     // operations; one is an acquire and its release
	rate                 float64 // operations a second
	p50, p99             float64 // µs
	clientCPU, serverCPU float64 // µs of CPU time an operation
}

// load runs n goroutines that acquire and release locks for d. Operations that are unfinished after
// d don't count in the rate, because fewer and fewer goroutines are still working then. load
// returns an error if they take much longer than d.
func (c *client) load(ctx context.Context, n int, d time.Duration) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, d+10*time.Second)
	defer cancel()
	runtime.GC() // the garbage of another peer must not be collected during this peer's round
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

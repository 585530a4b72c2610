package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// Sample is the outcome of one peer in one round of acquire + release. It is exported for net/rpc.
type Sample struct {
	N        int           // operations; one is an acquire and its release
	Elapsed  time.Duration // until the last operation has ended
	Rate     float64       // operations a second
	P50, P99 float64       // µs
	Requests int64         // that the client has counted, where the service can't
}

// load runs n goroutines that acquire and release locks for d, and at least once each. Operations
// that are unfinished after d don't count in the rate, because fewer and fewer goroutines are still
// working then. load gives up limit after d.
func (c *client) load(ctx context.Context, n int, d, limit time.Duration) (Sample, error) {
	if c.remote != nil {
		return c.remote(ctx, n, d, limit)
	}
	return within(ctx, d+limit, func(ctx context.Context) (Sample, error) { return c.loadFor(ctx, n, d) })
}

func (c *client) loadFor(ctx context.Context, n int, d time.Duration) (Sample, error) {
	runtime.GC() // the garbage of another peer must not be collected during this peer's round
	if c.ownNames == "" {
		c.ownNames = rand.Text()
	}
	durations := make([][]float64, n)
	var inTime atomic.Int64
	requests := c.requestsSoFar()
	start := time.Now()
	end := start.Add(d)
	err := concurrently(n, func(i int) error {
		name := fmt.Sprintf("load-%s-%d", c.ownNames, i)
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
	s := Sample{Elapsed: time.Since(start), Requests: c.requestsSoFar() - requests}
	s.Rate = float64(inTime.Load()) / d.Seconds()
	all := slices.Concat(durations...)
	s.N = len(all)
	s.P50, s.P99 = quantiles(all)
	return s, err
}

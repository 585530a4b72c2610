package main

import (
	"context"
	"sync"
	"time"
)

// gathered makes a fault of the service happen once in a round, when all victims are in their
// sections.
type gathered struct {
	inject func(ctx context.Context) error

	mu      sync.Mutex
	missing int // victims that have not arrived
	all     chan struct{}
	once    sync.Once
	err     error
}

func gatherAll(n int, inject func(ctx context.Context) error) *gathered {
	return &gathered{inject: inject, missing: n, all: make(chan struct{})}
}

// gatherLimit is for how long victims wait for the others.
const gatherLimit = 5 * time.Second

// leave says that one victim will not arrive.
func (g *gathered) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.missing--; g.missing == 0 {
		close(g.all)
	}
}

// arrive returns when all victims are there or have left, or after a while.
func (g *gathered) arrive() {
	g.leave()
	select {
	case <-g.all:
	case <-time.After(gatherLimit):
	}
}

// happen makes the fault happen, and returns when it is over.
func (g *gathered) happen(ctx context.Context) error {
	g.once.Do(func() { g.err = g.inject(ctx) })
	return g.err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// campaign is what a run was asked for.
type campaign struct {
	selection
	rounds     int // of each fault
	peerRounds int // the same for other libraries than this project, if it is less
	parallel   int // rounds at the same time
	seed       uint64
	end        time.Time // no round begins after it
	log        io.Writer

	places chan struct{} // one for each round that is under way, and each start of servers
	stalls stalls

	mu     sync.Mutex // guards the following, all rows, and log
	result *result
}

// laneKind is a kind of faults that have servers of their own.
type laneKind struct {
	name   string
	has    func(f fault) bool
	shared bool // many rounds may have the same servers at the same time
}

// laneKinds are the lanes of each backend. What is done to the servers happens in one round at a
// time.
var laneKinds = []laneKind{
	{"victims", func(f fault) bool { return f.serviceFault == nil }, true},
	{"servers", func(f fault) bool { return f.serviceFault != nil && !f.leader && !f.preloads }, false},
	{"leaders", func(f fault) bool { return f.leader }, false},
	{"preload", func(f fault) bool { return f.preloads }, false},
}

// maxLanes is how many lanes there are at the same time, because each has servers: on two CPUs those
// of twenty lanes answer too late to be opened.
const maxLanes = 6

// run runs all lanes of the backends that match. A lane that fails doesn't end the others.
func (c *campaign) run(ctx context.Context) error {
	if err := removeLeftovers(ctx); err != nil {
		return err
	}
	defer c.stalls.watch()()
	c.places = make(chan struct{}, c.parallel)
	atOnce := make(chan struct{}, min(c.parallel, maxLanes))
	var errs []error
	var lanes sync.WaitGroup
	for _, b := range backends {
		if !c.backends.MatchString(b.name) {
			continue
		}
		for _, k := range laneKinds {
			atOnce <- struct{}{}
			lanes.Go(func() {
				defer func() { <-atOnce }()
				if err := c.runLane(ctx, b, k); err != nil {
					c.mu.Lock()
					defer c.mu.Unlock()
					errs = append(errs, fmt.Errorf("%s, %s: %w", b.name, k.name, err))
				}
			})
		}
	}
	lanes.Wait()
	return errors.Join(errs...)
}

// runLane starts servers, and runs the rounds of all faults of one kind: first one round of each
// fault, then the next one of each. After them come further ones in place of those that are void.
func (c *campaign) runLane(ctx context.Context, b backend, k laneKind) (err error) {
	all := c.experiments(ctx, b, k)
	if len(all) == 0 {
		return nil
	}
	defer c.finish(all)
	s, err := c.startService(ctx, b)
	if err != nil || s == nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	var rounds sync.WaitGroup
	defer rounds.Wait()
	for round := 0; ; round++ {
		if round >= c.rounds {
			rounds.Wait() // then it is known how many are void
			if !slices.ContainsFunc(all, func(x *experiment) bool { return len(c.active(x, round)) > 0 }) {
				return nil
			}
		}
		for _, x := range all {
			if len(c.active(x, round)) == 0 {
				c.add(x, round, nil)
				continue
			}
			if !c.take(ctx) {
				return context.Cause(ctx)
			}
			if k.shared {
				rounds.Go(func() {
					defer c.give()
					_ = c.round(ctx, s, x, round) // the servers have no fault that could fail
				})
				continue
			}
			err := c.round(ctx, s, x, round)
			c.give()
			if err != nil {
				return fmt.Errorf("%s: %w", x.fault.name, err)
			}
		}
	}
}

// startService returns nil without an error if the time is over.
func (c *campaign) startService(ctx context.Context, b backend) (*service, error) {
	if !c.take(ctx) {
		return nil, context.Cause(ctx)
	}
	defer c.give()
	s, err := b.start(ctx)
	if err != nil {
		return nil, err
	}
	s.ttl = b.ttl
	c.mu.Lock()
	defer c.mu.Unlock()
	if earlier := c.result.Services[b.name]; earlier != "" && earlier != s.version {
		return nil, errors.Join(fmt.Errorf("%s has run, and now it is %s: want the same version", earlier, s.version), s.stop())
	}
	c.result.Services[b.name] = s.version
	return s, nil
}

// take waits for a place. It returns false if ctx or the time is over.
func (c *campaign) take(ctx context.Context) bool {
	select {
	case c.places <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() == nil && time.Now().Before(c.end) {
		return true
	}
	c.give()
	return false
}

func (c *campaign) give() { <-c.places }

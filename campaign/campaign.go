package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker/integration/netns"
)

// campaign is what a run was asked for.
type campaign struct {
	backends, faults, libraries *regexp.Regexp
	planted                     bool
	rounds                      int
	seed                        uint64
	end                         time.Time // no round begins after it
	log                         io.Writer
	result                      *result
}

// run runs all backends that match, one after the other.
func (c *campaign) run(ctx context.Context) error {
	if err := removeLeftovers(ctx); err != nil {
		return err
	}
	for _, b := range backends {
		if !c.backends.MatchString(b.name) {
			continue
		}
		if err := c.runBackend(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

func (c *campaign) runBackend(ctx context.Context, b backend) (err error) {
	libraries := c.selected(b)
	if len(libraries) == 0 {
		return nil
	}
	s, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	c.result.Services[b.name] = s.version
	for _, f := range faults {
		if !c.faults.MatchString(f.name) {
			continue
		}
		if f.packets {
			if err := netns.Usable(); err != nil {
				c.result.Left = append(c.result.Left, fmt.Sprintf("%s, %s: %v", b.name, f.name, err))
				continue
			}
		}
		if err := c.runFault(ctx, b, s, f, libraries); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// selected returns the libraries that take part. Those with a planted mistake do so only if they
// are asked for.
func (c *campaign) selected(b backend) []library {
	return slices.DeleteFunc(slices.Clone(b.libraries), func(l library) bool {
		return l.planted != c.planted || !c.libraries.MatchString(l.name)
	})
}

// entry is a row with what it needs to grow.
type entry struct {
	*row
	library library
}

// runFault has all libraries meet one fault, in rounds: in each round all at the same time.
func (c *campaign) runFault(ctx context.Context, b backend, s *service, f fault, libraries []library) error {
	var entries []entry
	for _, l := range libraries {
		entries = append(entries, entry{&row{Backend: b.name, Fault: f.name, Library: l.name}, l})
		if l.tokens {
			entries = append(entries, entry{&row{Backend: b.name, Fault: f.name, Library: l.name, Fence: true}, l})
		}
	}
	for round := range c.rounds {
		if time.Now().After(c.end) {
			c.result.Left = append(c.result.Left, fmt.Sprintf("%s, %s: %d rounds of %d, the time was over", b.name, f.name, round, c.rounds))
			break
		}
		c.round(ctx, b, s, f, entries, round)
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if e.Rounds+e.Void == 0 {
			continue
		}
		e.Fails = check(*e.row, e.library)
		c.result.Rows = append(c.result.Rows, e.row)
		fmt.Fprintln(c.log, e.summary())
	}
	return nil
}

func (c *campaign) round(ctx context.Context, b backend, s *service, f fault, entries []entry, round int) {
	plan := newSchedule(c.seed, b.name, f.name, round, b.ttl)
	var g *gathered
	if f.serviceFault != nil {
		g = gatherAll(len(entries), func(ctx context.Context) error { return f.serviceFault(ctx, s) })
	}
	histories := make([]history, len(entries))
	errs := make([]error, len(entries))
	var all sync.WaitGroup
	for i, e := range entries {
		name := fmt.Sprintf("campaign-%s-%d-%d", f.name, round, i)
		all.Go(func() {
			histories[i], errs[i] = newMatch(b, s, e.library, e.Fence, f, plan, name, g).run(ctx)
		})
	}
	all.Wait()
	for i, e := range entries {
		if errs[i] != nil {
			e.void(errs[i].Error())
			continue
		}
		e.add(judge(histories[i]), histories[i].Bound)
	}
}

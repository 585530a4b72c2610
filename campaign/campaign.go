package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// campaign is what a run was asked for.
type campaign struct {
	selection
	rounds int
	seed   uint64
	end    time.Time // no round begins after it
	log    io.Writer
	result *result
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
	if len(c.of(b)) == 0 {
		return nil
	}
	s, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	s.ttl = b.ttl
	c.result.Services[b.name] = s.version
	return c.runFaults(ctx, b, s)
}

// runFaults runs all faults that match, one after the other.
func (c *campaign) runFaults(ctx context.Context, b backend, s *service) error {
	for _, f := range faults {
		libraries := meeting(f.name, c.of(b))
		if !c.faults.MatchString(f.name) || len(libraries) == 0 || f.leader && s.leader == nil || f.preloads && b.static {
			continue
		}
		if f.needs != nil {
			if err := f.needs(ctx); err != nil {
				c.result.Left = append(c.result.Left, fmt.Sprintf("%s, %s: %v", b.name, f.name, err))
				continue
			}
		}
		for _, w := range workloads {
			if !c.workloads.MatchString(w.name) {
				continue
			}
			if err := c.runFault(ctx, b, s, f, w, libraries); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	return nil
}

// entry is a row with what it needs to grow.
type entry struct {
	*row
	library library
}

// runFault has all libraries meet one fault, in rounds: in each round all at the same time. A
// planted lock takes part until its mistake is found.
func (c *campaign) runFault(ctx context.Context, b backend, s *service, f fault, w workload, libraries []library) error {
	entries := entriesOf(b, f, w, libraries)
	for round := range c.rounds {
		if time.Now().After(c.end) {
			c.result.Left = append(c.result.Left, fmt.Sprintf("%s, %s, %s: %d rounds of %d, the time was over", b.name, f.name, w.name, round, c.rounds))
			break
		}
		active := entries
		if c.planted {
			if active = unsettled(entries); len(active) == 0 {
				break
			}
		}
		if f.before != nil {
			if err := f.before(ctx, s); err != nil {
				return err
			}
		}
		c.round(ctx, b, s, f, w, active, round)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if f.serviceFault != nil {
			s.background.Wait()
			if err := s.ready(ctx); err != nil {
				return fmt.Errorf("the servers after the fault: %w", err)
			}
		}
	}
	if f.after != nil {
		if err := f.after(ctx, s); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if e.Rounds+e.Void == 0 {
			continue
		}
		c.result.Rows = append(c.result.Rows, e.row)
		fmt.Fprintln(c.log, e.summary())
	}
	return nil
}

func entriesOf(b backend, f fault, w workload, libraries []library) (entries []entry) {
	for _, l := range libraries {
		r := row{Backend: b.name, Fault: f.name, Workload: w.name, Library: l.name}
		entries = append(entries, entry{&r, l})
		if l.tokens {
			fenced := r
			fenced.Fence = true
			entries = append(entries, entry{&fenced, l})
		}
	}
	return entries
}

func (c *campaign) round(ctx context.Context, b backend, s *service, f fault, w workload, entries []entry, round int) {
	plan := newSchedule(c.seed, b.name, f.name, round, b.ttl)
	var g *gathered
	if f.serviceFault != nil {
		g = gatherAll(len(entries), func(ctx context.Context) error { return f.serviceFault(ctx, s, plan) })
	}
	histories := make([]history, len(entries))
	errs := make([]error, len(entries))
	var all sync.WaitGroup
	for i, e := range entries {
		name := fmt.Sprintf("campaign-%s-%s-%d-%d", f.name, w.name, round, i)
		all.Go(func() {
			histories[i], errs[i] = newMatch(b, s, e.library, w, e.Fence, f, plan, name, g).run(ctx)
		})
	}
	all.Wait()
	for i, e := range entries {
		if errs[i] != nil {
			e.void(errs[i].Error())
		} else {
			e.add(judge(histories[i]), histories[i].Bound)
		}
		e.Fails, e.Excused = check(*e.row, e.library, f, b.promises)
	}
}

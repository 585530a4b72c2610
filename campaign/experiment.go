package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// experiment is one fault with one workload on one backend, in which some libraries take part.
type experiment struct {
	backend  backend
	fault    fault
	workload workload
	entries  []entry

	next     int               // the round whose outcomes are added next
	outcomes map[int][]outcome // of rounds that ended before an earlier one
}

// entry is a row with what it needs to grow.
type entry struct {
	*row
	library library
	done    int // rounds of an earlier part of the run
	wanted  int // rounds that aren't void
}

// isShort reports whether there must be further rounds in place of void ones. There are at most twice
// as many rounds as are wanted.
func (e entry) isShort() bool { return e.Rounds < e.wanted && e.Rounds+e.Void < 2*e.wanted }

// outcome is what happened to an entry in one round.
type outcome struct {
	entry
	history history
	err     error // the round is void
	stalled bool  // the machine stalled meanwhile
}

// experiments returns what is left to do for the faults of one kind on a backend.
func (c *campaign) experiments(ctx context.Context, b backend, k laneKind) (all []*experiment) {
	for _, f := range faults {
		libraries := meeting(f.name, c.of(b))
		if !k.has(f) || !c.has(b, f) || len(libraries) == 0 {
			continue
		}
		c.leave(b, f, "")
		if f.needs != nil {
			if err := f.needs(ctx); err != nil {
				c.leave(b, f, err.Error())
				continue
			}
		}
		for _, w := range workloads {
			if !c.workloads.MatchString(w.name) {
				continue
			}
			x := &experiment{backend: b, fault: f, workload: w, entries: entriesOf(b, f, w, libraries), outcomes: make(map[int][]outcome)}
			if c.enter(x); slices.ContainsFunc(x.entries, entry.isShort) {
				all = append(all, x)
			}
		}
	}
	return all
}

func entriesOf(b backend, f fault, w workload, libraries []library) (entries []entry) {
	for _, l := range libraries {
		r := row{Backend: b.name, Fault: f.name, Workload: w.name, Library: l.name}
		entries = append(entries, entry{row: &r, library: l})
		if l.tokens {
			fenced := r
			fenced.Fence = true
			entries = append(entries, entry{row: &fenced, library: l})
		}
	}
	return entries
}

// enter gives the entries of an experiment their rows in the result. Those of an earlier part of the
// run go on.
func (c *campaign) enter(x *experiment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range x.entries {
		e := &x.entries[i]
		e.row = c.result.enter(e.row)
		e.done, e.wanted = e.Rounds+e.Void, c.rounds
		if e.Library != thisProject && !c.planted {
			e.wanted = min(c.rounds, c.peerRounds)
		}
	}
}

// active returns the entries that take part in a round: in those that come after all others, the
// entries with void rounds. A planted lock takes part until its mistake is found.
func (c *campaign) active(x *experiment, round int) []entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries := x.entries
	if c.planted {
		entries = unsettled(entries)
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e entry) bool {
		if round >= c.rounds {
			return !e.isShort()
		}
		return round < e.done || round >= e.wanted
	})
}

// round has the libraries meet the fault, all at the same time. An error says that the servers
// can't be used any more.
func (c *campaign) round(ctx context.Context, s *service, x *experiment, round int) error {
	if x.fault.beforeRound != nil {
		if err := x.fault.beforeRound(ctx, s); err != nil {
			return err
		}
	}
	outcomes := c.matches(ctx, s, x, round)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.add(x, round, outcomes)
	if x.fault.serviceFault == nil {
		return nil
	}
	s.background.Wait()
	if err := s.ready(ctx); err != nil {
		return fmt.Errorf("the servers after the fault: %w", err)
	}
	return nil
}

func (c *campaign) matches(ctx context.Context, s *service, x *experiment, round int) (outcomes []outcome) {
	plan := newSchedule(c.seed, x.backend.name, x.fault.name, round, x.backend.ttl)
	for _, e := range c.active(x, round) {
		outcomes = append(outcomes, outcome{entry: e})
	}
	var g *gathered
	if x.fault.serviceFault != nil {
		g = gatherAll(len(outcomes), func(ctx context.Context) error { return x.fault.serviceFault(ctx, s, plan) })
	}
	begin := now()
	var all sync.WaitGroup
	for i := range outcomes {
		o := &outcomes[i]
		name := fmt.Sprintf("campaign-%s-%s-%d-%d", x.fault.name, x.workload.name, round, i)
		all.Go(func() {
			o.history, o.err = newMatch(x.backend, s, o.library, x.workload, o.Fence, x.fault, plan, name, g).run(ctx)
			o.stalled = c.stalls.since(begin)
		})
	}
	all.Wait()
	return outcomes
}

// add adds the outcomes of a round to the rows. They are added in the order of the rounds, so a row
// always has the rounds from 0, and a later part of the run can go on with the next one.
func (c *campaign) add(x *experiment, round int, outcomes []outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.outcomes[round] = outcomes
	for {
		next, ended := x.outcomes[x.next]
		if !ended {
			return
		}
		delete(x.outcomes, x.next)
		x.next++
		for _, o := range next {
			o.count(x.fault)
			o.Fails, o.Excused = check(*o.row, o.library, x.fault, x.backend.promises)
		}
	}
}

// count adds the outcome to its row.
func (o outcome) count(f fault) {
	found := judge(o.history)
	doubts := found.doubts(o.library, o.Fence, f.keepsLock())
	switch {
	case o.err != nil:
		o.void(o.err.Error())
	case (o.stalled || f.keepsLock() && found.Gap >= stallLimit) && len(doubts) > 0:
		o.void(tooBusy, doubts...)
	default:
		o.add(found, o.history.Bound)
		if f.keepsLock() {
			o.Causes = addReason(o.Causes, found.Cause)
		}
	}
}

// finish shows the rows of experiments that have ended.
func (c *campaign) finish(all []*experiment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range all {
		for _, e := range x.entries {
			if e.Rounds+e.Void > 0 {
				fmt.Fprintln(c.log, e.summary())
			} else if e.wanted > 0 && e.Library == thisProject {
				c.result.leave(x.backend, x.fault, "the time was over")
			}
		}
	}
}

// leave notes why a fault is left out; empty: it isn't.
func (c *campaign) leave(b backend, f fault, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.leave(b, f, why)
}

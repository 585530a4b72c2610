package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"
)

// subject is what this project is called among its peers.
const subject = "locker"

// effort is how long things are measured.
type effort struct {
	loads, handOffs int           // rounds
	load, handOff   time.Duration // a round
	crowd           time.Duration // at most, of many waiters
}

var (
	long  = effort{loads: 15, load: 100 * time.Millisecond, handOffs: 15, handOff: 250 * time.Millisecond, crowd: 30 * time.Second}
	short = effort{loads: 7, load: 50 * time.Millisecond, handOffs: 5, handOff: 150 * time.Millisecond, crowd: 5 * time.Second}
)

// warmUp is how long each contestant works before it is measured.
const warmUp = 200 * time.Millisecond

// measurement is a run of the scenarios on one backend.
type measurement struct {
	effort    effort
	scenarios *regexp.Regexp // which to run
	peers     *regexp.Regexp // which to measure
	quiet     *quiet

	*service
	*results
}

// measure starts a backend, runs all scenarios on it and stops it.
func (m measurement) measure(ctx context.Context, b backend) (_ *results, err error) {
	if m.service, err = b.start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.stop()) }()
	for _, c := range m.servers {
		m.quiet.servers = append(m.quiet.servers, c.pid)
	}
	m.results = &results{backend: b.name, goals: m.service.goals}
	began := time.Now()
	for _, scenario := range []func(context.Context) error{m.runLoads, m.runHandOffs, m.runHolds, m.runCrowds} {
		if err := scenario(ctx); err != nil {
			return nil, err
		}
	}
	m.results.about = fmt.Sprintf("%s, %s, %d CPUs, %s; %s.",
		m.service.about, runtime.Version(), cpus, time.Since(began).Round(time.Second), m.quiet)
	return m.results, m.checkGoals()
}

// wanted returns those of list that are to be measured in a scenario.
func (m measurement) wanted(scenario string, list []contestant) []contestant {
	if !m.scenarios.MatchString(scenario) {
		return nil
	}
	list = slices.DeleteFunc(slices.Clone(list), func(c contestant) bool { return !m.peers.MatchString(c.name) })
	if len(list) > 0 {
		fmt.Fprintln(os.Stderr, "bench:", m.backend, scenario)
	}
	return list
}

// forgive lets a peer fail, which loses it a round, but not this project and what all are compared with.
func (m measurement) forgive(c contestant, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", c.name, err)
	if c.name == subject || c.name == m.bare.name || c.name == m.byHand.name {
		return err
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	return nil
}

// together runs do(0) to do(n-1) at the same time. It returns one of their errors, and waits for all.
func together(n int, do func(i int) error) error {
	var all sync.WaitGroup
	failed := make(chan error, n)
	for i := range n {
		all.Go(func() {
			if err := do(i); err != nil {
				failed <- err
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

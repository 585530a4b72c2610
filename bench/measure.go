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

// thisProject is the name of this project among the peers.
const thisProject = "locker"

// schedule says how many rounds a scenario has, and how long they take.
type schedule struct {
	loadRounds, handOffRounds int
	loadTime, handOffTime     time.Duration // of one round
	waitersTime               time.Duration // the most that many waiters get to be served
}

var (
	longSchedule = schedule{loadRounds: 15, loadTime: 100 * time.Millisecond,
		handOffRounds: 15, handOffTime: 250 * time.Millisecond, waitersTime: 30 * time.Second}
	shortSchedule = schedule{loadRounds: 7, loadTime: 50 * time.Millisecond,
		handOffRounds: 5, handOffTime: 150 * time.Millisecond, waitersTime: 5 * time.Second}
)

// warmUp is how long each peer works before it is measured.
const warmUp = 200 * time.Millisecond

// measurement is one run of the scenarios on one backend.
type measurement struct {
	schedule    schedule
	scenarios   *regexp.Regexp // selects what to run
	peers       *regexp.Regexp // selects what to measure
	disturbance *disturbance

	*service
	*results
}

// measure starts a backend, runs all scenarios on it, and stops it.
func (m measurement) measure(ctx context.Context, b backend) (_ *results, err error) {
	if m.service, err = b.start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.stop()) }()
	for _, server := range m.servers {
		m.disturbance.serverPIDs = append(m.disturbance.serverPIDs, server.pid)
	}
	m.results = &results{backend: b.name, goals: m.service.goals}
	began := time.Now()
	for _, scenario := range []func(context.Context) error{m.runLoads, m.runHandOffs, m.runHeldLeases, m.runWaiters} {
		if err := scenario(ctx); err != nil {
			return nil, err
		}
	}
	m.results.description = fmt.Sprintf("%s, %s, %d CPUs, %s; %s.",
		m.service.description, runtime.Version(), cpus, time.Since(began).Round(time.Second), m.disturbance)
	return m.results, m.checkGoals()
}

// selected returns the peers of list that should be measured in a scenario.
func (m measurement) selected(scenario string, list []peer) []peer {
	if !m.scenarios.MatchString(scenario) {
		return nil
	}
	list = slices.DeleteFunc(slices.Clone(list), func(p peer) bool { return !m.peers.MatchString(p.name) })
	if len(list) > 0 {
		fmt.Fprintln(os.Stderr, "bench:", m.backend, scenario)
	}
	return list
}

// tolerate returns err if it must end the run: if it comes from this project, or from what all
// peers are compared with. Another library may fail: the error is printed, and it loses the round.
func (m measurement) tolerate(p peer, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", p.name, err)
	if p.name == thisProject || p.name == m.bare.name || p.name == m.byHand.name {
		return err
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	return nil
}

// concurrently runs do(0) to do(n-1) at the same time and waits for all of them. It returns one of
// their errors.
func concurrently(n int, do func(i int) error) error {
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

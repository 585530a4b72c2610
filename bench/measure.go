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

// warmUp is how long each peer works before it is measured.
const warmUp = 50 * time.Millisecond

// measurement is one run of the scenarios on one backend.
type measurement struct {
	scenarios   *regexp.Regexp // selects what to run
	peerNames   *regexp.Regexp // selects what to measure
	clientPIDs  []int          // of other processes with clients
	end         time.Time      // when this backend's share of the time is over
	disturbance *disturbance

	backend
	*service
	peers
	networks *networks
	*results
}

// patienceShare is the part of a backend's time that may be spent on repeating what other work on
// the machine disturbed.
const patienceShare = 0.15

// part is a scenario, or one row of it.
type part struct {
	name   string
	weight float64 // of its share of the time
	run    func(ctx context.Context, until time.Time) error
}

func (m measurement) parts() (all []part) {
	for _, r := range loadRows() {
		all = append(all, part{r.name(), r.weight(), func(ctx context.Context, until time.Time) error {
			if r.added == 0 {
				return m.measureLoad(ctx, r, until)
			}
			return m.disturbance.awake.asleepWhile(ctx, serverCPU(), func() error { return m.measureLoad(ctx, r, until) })
		}})
	}
	for _, n := range contenderCounts {
		all = append(all, part{handOffName(n), 3, func(ctx context.Context, until time.Time) error {
			return m.measureHandOff(ctx, n, until)
		}})
	}
	all = append(all, part{heldLeasesName, 12, m.measureAllHeldLeases})
	for _, n := range lockerCounts {
		all = append(all, part{waitersName(n), 6, func(ctx context.Context, until time.Time) error {
			return m.measureAllWaiters(ctx, n, until)
		}})
	}
	return slices.DeleteFunc(all, func(p part) bool { return !m.scenarios.MatchString(p.name) })
}

// measure starts a backend, runs all scenarios on it, and stops it. What it has measured before an
// error is returned as well.
func (m measurement) measure(ctx context.Context) (_ *results, err error) {
	began := time.Now()
	if m.service, err = m.start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.stop()) }()
	for _, server := range m.servers {
		m.disturbance.serverPIDs = append(m.disturbance.serverPIDs, server.pid)
	}
	m.disturbance.timeLeft = time.Duration(patienceShare * float64(time.Until(m.end)))
	m.peers = m.backend.peers(m.addrs)
	m.results = &results{name: m.backend.name, goals: m.backend.goals()}
	m.networks = &networks{addrs: m.addrs}
	defer m.networks.stop()
	m.disturbance.networks = m.networks
	if err := m.warmServers(ctx); err != nil {
		return nil, err
	}
	m.disturbance.begin()
	err = m.runAll(ctx, m.parts())
	m.results.description = fmt.Sprintf("%s, %s, %d CPUs, %s; %s.%s", m.service.description, runtime.Version(),
		cpus, time.Since(began).Round(time.Second), m.disturbance, m.networks)
	return m.results, errors.Join(err, m.checkGoals())
}

// warmShare is the part of a backend's time for which the servers may work for each peer before they
// are measured.
const warmShare = 1.0 / 24

// warmServers lets the servers work for each peer for as long as they need.
func (m measurement) warmServers(ctx context.Context) error {
	if m.warmTime == 0 {
		return nil
	}
	const goroutines = 16
	long := min(m.warmTime, time.Duration(warmShare*float64(time.Until(m.end))))
	for _, p := range slices.Concat([]peer{m.bare, m.byHand}, m.selected(m.load)) {
		cl, err := p.open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		_, err = cl.load(ctx, goroutines, long, time.Minute)
		cl.close()
		if err := m.tolerate(p, err); err != nil {
			return err
		}
	}
	return nil
}

// runAll gives each part its share of the time that is left.
func (m measurement) runAll(ctx context.Context, parts []part) error {
	var weights []float64
	for _, p := range parts {
		weights = append(weights, p.weight)
	}
	for i, p := range parts {
		fmt.Fprintln(os.Stderr, "bench:", m.backend.name, p.name)
		left := time.Until(m.end) - m.disturbance.timeLeft
		err := p.run(ctx, time.Now().Add(shareOf(left, weights[i:])))
		if errors.Is(context.Cause(ctx), errTimeOver) {
			return nil // what is missing has no figures
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// selected returns the peers of list that should be measured.
func (m measurement) selected(list []peer) []peer {
	return slices.DeleteFunc(slices.Clone(list), func(p peer) bool { return !m.peerNames.MatchString(p.name) })
}

// essential reports whether p is this project, or what all peers are compared with.
func (m measurement) essential(p peer) bool {
	return p.name == thisProject || p.name == m.bare.name || p.name == m.byHand.name
}

// tolerate returns err if it must end the run: if it comes from an essential peer, and isn't only
// late. Another library may fail: the error is printed.
func (m measurement) tolerate(p peer, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", p.name, err)
	var late givenUp
	if m.essential(p) && !errors.As(err, &late) {
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

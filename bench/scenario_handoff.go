package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// contenders is how many want the same lock, each with a client of its own.
var contenders = []int{2, 16, 64}

func handOffName(n int) string { return fmt.Sprintf("hand-off, %d contenders", n) }

// runHandOffs measures how a lock goes from one to the next. Each contender wants it again at once, and gives it back at once.
// It is no hand-off when a contender gets back what it has just given.
func (m measurement) runHandOffs(ctx context.Context) error {
	for _, n := range contenders {
		if err := m.runHandOff(ctx, n); err != nil {
			return fmt.Errorf("%s: %w", handOffName(n), err)
		}
	}
	return nil
}

func (m measurement) runHandOff(ctx context.Context, n int) error {
	scenario := handOffName(n)
	list := m.wanted(scenario, m.handOffs)
	if len(list) == 0 {
		return nil
	}
	bare, err := m.bare.open(ctx)
	if err != nil {
		return err
	}
	defer bare.close()
	parties := make([]*party, len(list))
	for i, c := range list {
		clients, err := c.openAll(ctx, n)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		defer closeAll(clients)
		parties[i] = &party{clients: clients, shares: make([]int, n)}
		_, err = parties[i].contend(ctx, "warm-up", warmUp)
		if err := m.forgive(c, err); err != nil {
			return err
		}
		clear(parties[i].shares)
	}
	for round := range m.effort.handOffs {
		for i, c := range list {
			err := m.handOffRound(ctx, scenario, c, parties[i], round, bare)
			if err := m.forgive(c, err); err != nil {
				return err
			}
		}
	}
	for i, c := range list {
		m.add(c.name, scenario, 0, metric{name: "Jain index"}, jain(parties[i].shares), 0)
	}
	return nil
}

// handOffRound compares the time between two holders with that of a bare request, which is measured just before.
func (m measurement) handOffRound(ctx context.Context, scenario string, c contestant, p *party, round int, bare *client) error {
	var base sample
	var l *ledger
	var requests int64
	shares := slices.Clone(p.shares)
	_, err := m.quiet.during(ctx, func() (err error) {
		copy(p.shares, shares)
		if base, err = bare.load(ctx, 1, m.effort.load/2); err != nil {
			return err
		}
		before, err := m.asked(ctx, c)
		if err != nil {
			return err
		}
		if l, err = p.contend(ctx, "hand-off-"+rand.Text(), m.effort.handOff); err != nil {
			return err
		}
		after, err := m.asked(ctx, c)
		requests = after - before
		return err
	})
	if err != nil {
		return err
	}
	count := float64(len(l.gaps))
	p50, p99 := quantiles(l.gaps)
	to := m.bare.name + " alone"
	m.add(c.name, scenario, round, metric{"gap, median", "µs", to}, p50, base.p50)
	m.add(c.name, scenario, round, metric{"gap, p99", "µs", to}, p99, base.p50)
	m.add(c.name, scenario, round, metric{name: "hand-offs", unit: "1/s"}, count/m.effort.handOff.Seconds(), 0)
	m.add(c.name, scenario, round, metric{name: "requests an acquisition"}, float64(requests)/float64(l.grants), 0)
	return nil
}

// party is those who want a lock.
type party struct {
	clients []*client
	shares  []int // how often each has got it
}

// patience is how long those who wait at the end of a round may still get the lock. Then they give up.
const patience = time.Second

// contend lets all clients of p want the lock of that name again and again, for d.
func (p *party) contend(ctx context.Context, name string, d time.Duration) (*ledger, error) {
	runtime.GC()
	ctx, cancel := context.WithTimeout(ctx, d+patience)
	defer cancel()
	l := &ledger{holder: -1}
	end := time.Now().Add(d)
	err := together(len(p.clients), func(i int) error {
		for counts := true; counts; {
			release, err := p.clients[i].lock(ctx, name)
			now := time.Now()
			switch {
			case err != nil && ctx.Err() != nil:
				return nil // others were quicker
			case err != nil:
				return err
			}
			if counts = now.Before(end); counts {
				p.shares[i]++
			}
			l.granted(i, now, counts)
			l.released(i, time.Now())
			if err := release(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
	return l, err
}

// ledger notes who has had a lock.
type ledger struct {
	mu     sync.Mutex
	grants int       // also of those who waited when the round ended
	gaps   []float64 // µs from the release of one holder to the return of another
	holder int       // the last; -1: nobody has had it yet
	since  time.Time // its release
}

func (l *ledger) granted(i int, now time.Time, counts bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants++
	if counts && l.holder >= 0 && l.holder != i {
		l.gaps = append(l.gaps, micros(now.Sub(l.since)))
	}
}

func (l *ledger) released(i int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder, l.since = i, now
}

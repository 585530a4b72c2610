package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
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
		_, err = parties[i].contend(ctx, "warm-up", m.effort.handOff/2)
		if err := m.forgive(c, err); err != nil {
			return err
		}
		clear(parties[i].shares)
	}
	for round := range m.effort.rounds {
		for i, c := range list {
			base, err := bare.load(ctx, 1, m.effort.load/4)
			if err != nil {
				return fmt.Errorf("%s: %w", m.bare.name, err)
			}
			if err := m.forgive(c, m.runRound(ctx, scenario, c, parties[i], round, base)); err != nil {
				return err
			}
			m.add(m.bare.name, scenario, gapMedian, micros(base.p50), math.NaN())
		}
	}
	for i, c := range list {
		m.add(c.name, scenario, metric{name: "Jain index"}, jain(parties[i].shares), math.NaN())
	}
	return nil
}

var (
	gapMedian = metric{"gap, median", "µs", "PING alone"}
	gapP99    = metric{"gap, p99", "µs", "PING alone"}
)

func (m measurement) runRound(ctx context.Context, scenario string, c contestant, p *party, round int, base sample) error {
	before, err := m.asked(ctx, c)
	if err != nil {
		return err
	}
	l, err := p.contend(ctx, fmt.Sprint("hand-off-", len(p.clients), "-", round), m.effort.handOff)
	if err != nil {
		return err
	}
	after, err := m.asked(ctx, c)
	if err != nil {
		return err
	}
	gap := percentile(l.gaps, 50)
	m.add(c.name, scenario, gapMedian, micros(gap), gap/base.p50)
	gap = percentile(l.gaps, 99)
	m.add(c.name, scenario, gapP99, micros(gap), gap/base.p50)
	m.add(c.name, scenario, metric{name: "hand-offs", unit: "1/s"}, float64(len(l.gaps))/m.effort.handOff.Seconds(), math.NaN())
	m.add(c.name, scenario, metric{name: "requests an acquisition"}, float64(after-before)/float64(l.grants), math.NaN())
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
	grants int
	gaps   []time.Duration // from the release of one holder to the return of another
	holder int             // the last; -1: nobody has had it yet
	since  time.Time       // its release
}

func (l *ledger) granted(i int, now time.Time, counts bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants++
	if counts && l.holder >= 0 && l.holder != i {
		l.gaps = append(l.gaps, now.Sub(l.since))
	}
}

func (l *ledger) released(i int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder, l.since = i, now
}

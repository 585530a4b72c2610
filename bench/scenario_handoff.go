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

// contenderCounts are the numbers of clients that want the same lock. Each client is a separate
// one.
var contenderCounts = []int{2, 16, 64}

func handOffName(n int) string { return fmt.Sprintf("hand-off, %d contenders", n) }

// runHandOffs measures how a lock goes from one holder to the next. Each contender wants the lock
// again at once, and releases it at once. If a contender gets back the lock that it has just
// released, that is no hand-off.
func (m measurement) runHandOffs(ctx context.Context) error {
	for _, n := range contenderCounts {
		if err := m.measureHandOff(ctx, n); err != nil {
			return fmt.Errorf("%s: %w", handOffName(n), err)
		}
	}
	return nil
}

func (m measurement) measureHandOff(ctx context.Context, n int) error {
	scenario := handOffName(n)
	list := m.selected(scenario, m.handOffPeers)
	if len(list) == 0 {
		return nil
	}
	bare, err := m.bare.open(ctx)
	if err != nil {
		return err
	}
	defer bare.close()
	groups := make([]*contenderGroup, len(list))
	for i, p := range list {
		clients, err := p.openAll(ctx, n)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		defer closeAll(clients)
		groups[i] = &contenderGroup{clients: clients, shares: make([]int, n)}
		_, err = groups[i].contend(ctx, "warm-up", warmUp)
		if err := m.tolerate(p, err); err != nil {
			return err
		}
		clear(groups[i].shares)
	}
	for round := range m.schedule.handOffRounds {
		for i, p := range list {
			err := m.handOffRound(ctx, scenario, p, groups[i], round, bare)
			if err := m.tolerate(p, err); err != nil {
				return err
			}
		}
	}
	for i, p := range list {
		m.add(p.name, scenario, 0, metric{name: "Jain index"}, jain(groups[i].shares), 0)
	}
	return nil
}

// handOffRound compares the time between two holders with the time of a bare request, which is
// measured just before.
func (m measurement) handOffRound(ctx context.Context, scenario string, p peer, g *contenderGroup, round int, bare *client) error {
	var base sample
	var l *handOffLog
	var requests int64
	shares := slices.Clone(g.shares)
	_, err := m.disturbance.measureUndisturbed(ctx, func() (err error) {
		copy(g.shares, shares)
		if base, err = bare.load(ctx, 1, m.schedule.loadTime/2); err != nil {
			return err
		}
		before, err := m.requestsOf(ctx, p)
		if err != nil {
			return err
		}
		if l, err = g.contend(ctx, "hand-off-"+rand.Text(), m.schedule.handOffTime); err != nil {
			return err
		}
		after, err := m.requestsOf(ctx, p)
		requests = after - before
		return err
	})
	if err != nil {
		return err
	}
	count := float64(len(l.gaps))
	p50, p99 := quantiles(l.gaps)
	baseline := m.bare.name + " alone"
	m.add(p.name, scenario, round, metric{"gap, median", "µs", baseline}, p50, base.p50)
	m.add(p.name, scenario, round, metric{"gap, p99", "µs", baseline}, p99, base.p50)
	m.add(p.name, scenario, round, metric{name: "hand-offs", unit: "1/s"}, count/m.schedule.handOffTime.Seconds(), 0)
	m.add(p.name, scenario, round, metric{name: "requests an acquisition"}, float64(requests)/float64(l.grants), 0)
	return nil
}

// contenderGroup is the clients of one peer that want the same lock.
type contenderGroup struct {
	clients []*client
	shares  []int // how often each client has acquired the lock
}

// finishTime is how long the clients that still wait at the end of a round may take to get the
// lock. Then they give up.
const finishTime = time.Second

// contend makes all clients of g acquire and release the lock of that name again and again, for d.
func (g *contenderGroup) contend(ctx context.Context, name string, d time.Duration) (*handOffLog, error) {
	runtime.GC()
	ctx, cancel := context.WithTimeout(ctx, d+finishTime)
	defer cancel()
	l := &handOffLog{lastHolder: -1}
	end := time.Now().Add(d)
	err := concurrently(len(g.clients), func(i int) error {
		for inRound := true; inRound; {
			release, err := g.clients[i].lock(ctx, name)
			now := time.Now()
			switch {
			case err != nil && ctx.Err() != nil:
				return nil // the round ended before its turn
			case err != nil:
				return err
			}
			if inRound = now.Before(end); inRound {
				g.shares[i]++
			}
			l.granted(i, now, inRound)
			l.released(i, time.Now())
			if err := release(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
	return l, err
}

// handOffLog records the holders of a lock.
type handOffLog struct {
	mu         sync.Mutex
	grants     int       // including those after the end of the round
	gaps       []float64 // µs from the release call of one holder to the grant of another
	lastHolder int       // -1: none yet
	releasedAt time.Time // when lastHolder called release
}

func (l *handOffLog) granted(i int, now time.Time, inRound bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants++
	if inRound && l.lastHolder >= 0 && l.lastHolder != i {
		l.gaps = append(l.gaps, micros(now.Sub(l.releasedAt)))
	}
}

func (l *handOffLog) released(i int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastHolder, l.releasedAt = i, now
}

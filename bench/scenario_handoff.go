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

// measureHandOff measures how a lock goes from one holder to the next. Each contender wants the lock
// again at once, and releases it at once. If a contender gets back the lock that it has just
// released, that is no hand-off. A peer that fails or hangs is left out.
func (m measurement) measureHandOff(ctx context.Context, n int, until time.Time) error {
	scenario := handOffName(n)
	list := m.selected(m.handOff)
	if len(list) == 0 {
		return nil
	}
	bare, err := m.bare.open(ctx)
	if err != nil {
		return err
	}
	defer bare.close()
	var groups []*contenderGroup
	var overhead time.Duration
	defer func() {
		for _, g := range groups {
			closeAll(g.clients)
		}
	}()
	for _, p := range list {
		clients, err := p.openAll(ctx, n)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		g := &contenderGroup{peer: p, clients: clients, shares: make([]int, n)}
		groups = append(groups, g)
		began := time.Now()
		if _, err := g.contend(ctx, "warm-up", warmUp); err != nil {
			if groups, err = m.leaveOutGroup(scenario, groups, g, err); err != nil {
				return err
			}
			continue
		}
		overhead += time.Since(began) - warmUp + bareTime
		clear(g.shares)
	}
	length, err := planHandOffs(time.Until(until), len(groups), overhead)
	if err != nil {
		for _, g := range groups {
			m.miss(g.peer.name, scenario, gapMedian(m.bare), err.Error())
		}
		return nil
	}
	patience := m.disturbance.timeLeft
	for round := range wantedRounds {
		if time.Now().After(until.Add(patience - m.disturbance.timeLeft)) {
			break
		}
		for _, g := range slices.Clone(groups) {
			if err := m.handOffRound(ctx, scenario, g, round, length, bare); err != nil {
				if groups, err = m.leaveOutGroup(scenario, groups, g, err); err != nil {
					return err
				}
			}
		}
	}
	for _, g := range groups {
		m.add(g.peer.name, scenario, 0, metric{name: "Jain index", once: true}, jain(g.shares), 0)
	}
	return nil
}

// The length of a round of hand-offs. Peers that poll have few hand-offs in any time that there is,
// so what they need doesn't count.
const (
	shortestHandOffs = 100 * time.Millisecond
	longestHandOffs  = 2 * time.Second
	bareTime         = 50 * time.Millisecond // for the bare request before each
)

func planHandOffs(available time.Duration, groups int, overhead time.Duration) (time.Duration, error) {
	length := (available/wantedRounds - overhead) / time.Duration(max(groups, 1))
	if length < shortestHandOffs {
		return 0, noTime(wantedRounds, wantedRounds*(overhead+time.Duration(groups)*shortestHandOffs), available)
	}
	return min(length, longestHandOffs), nil
}

// leaveOutGroup removes g from the row. It returns an error if the run must end.
func (m measurement) leaveOutGroup(
	scenario string, groups []*contenderGroup, g *contenderGroup, cause error,
) ([]*contenderGroup, error) {
	if err := m.tolerate(g.peer, cause); err != nil {
		return groups, err
	}
	m.miss(g.peer.name, scenario, gapMedian(m.bare), why(cause))
	closeAll(g.clients)
	return slices.DeleteFunc(slices.Clone(groups), func(other *contenderGroup) bool { return other == g }), nil
}

// gapMedian is the first metric of the row.
func gapMedian(bare peer) metric {
	return metric{name: "gap, median", unit: "µs", baseline: bare.name + " alone"}
}

// handOffRound compares the time between two holders with the time of a bare request, which is
// measured just before.
func (m measurement) handOffRound(
	ctx context.Context, scenario string, g *contenderGroup, round int, length time.Duration,
	bare *client,
) error {
	var base Sample
	var l *handOffLog
	var requests int64
	shares := slices.Clone(g.shares)
	_, err := m.disturbance.measureUndisturbed(ctx, func() (err error) {
		copy(g.shares, shares)
		if base, err = bare.load(ctx, 1, bareTime, finishTime); err != nil {
			return err
		}
		before, err := m.requestsOf(ctx, g.peer)
		if err != nil {
			return err
		}
		before += counted(g.clients)
		if l, err = g.contend(ctx, "hand-off-"+rand.Text(), length); err != nil {
			return err
		}
		after, err := m.requestsOf(ctx, g.peer)
		requests = after + counted(g.clients) - before
		return err
	})
	if err != nil {
		return err
	}
	p50, p99 := quantiles(l.gaps)
	add := func(what metric, value, base float64) { m.add(g.peer.name, scenario, round, what, value, base) }
	add(gapMedian(m.bare), p50, base.P50)
	add(metric{name: "gap, p99", unit: "µs", baseline: m.bare.name + " alone"}, p99, base.P50)
	add(metric{name: "hand-offs", unit: "1/s"}, float64(len(l.gaps))/length.Seconds(), 0)
	add(metric{name: "requests an acquisition"}, float64(requests)/float64(l.grants), 0)
	return nil
}

// contenderGroup is the clients of one peer that want the same lock.
type contenderGroup struct {
	peer    peer
	clients []*client
	shares  []int // how often each client has acquired the lock
}

// finishTime is how long the clients that still wait at the end of a round may take to get the
// lock. Then they give up. hangTime later all of them are given up.
const (
	finishTime = time.Second
	hangTime   = 2 * time.Second
)

// contend makes all clients of g acquire and release the lock of that name again and again, for d.
func (g *contenderGroup) contend(ctx context.Context, name string, d time.Duration) (*handOffLog, error) {
	return within(ctx, d+finishTime+hangTime, func(ctx context.Context) (*handOffLog, error) {
		return g.contendFor(ctx, name, d)
	})
}

func (g *contenderGroup) contendFor(ctx context.Context, name string, d time.Duration) (*handOffLog, error) {
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

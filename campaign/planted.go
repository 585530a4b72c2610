package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A planted lock is written for this program, to see that the campaign finds mistakes. It is sound
// but for one mistake. One without a mistake takes part as well: if it fails, the rounds find
// something else than the mistakes.

// mistake is what is wrong with a planted lock.
type mistake struct {
	name    string
	fault   string // which must find it; empty: there is no mistake, and the lock meets all faults of the others
	finding string // in the rule that is broken then
}

var (
	noMistake         = &mistake{name: "no mistake"}
	deadlineFromReply = &mistake{"deadline from the reply", "slow-cut", "two holders believed"}
	renewalOfAny      = &mistake{"renewal without its owner", "pause", "came back"}
	releaseOfAny      = &mistake{"release without its owner", "pause", "two holders believed"}
	tokenBeforeGrant  = &mistake{"token from a plain sequence", "nothing", "smaller token"}
	sendingIsProof    = &mistake{"keepalive taken for proof", "cut", "two holders believed"}
)

// plant makes a library of a planted lock. begin prepares one acquisition.
func plant(
	m *mistake,
	connect func(ctx context.Context, s site) (begin func(name string) attempt, close func(), err error),
) library {
	return library{
		name: "planted: " + m.name, looks: "deadline", tokens: true, planted: m,
		open: func(ctx context.Context, s site) (*client, error) {
			begin, closeAll, err := connect(ctx, s)
			if err != nil {
				return nil, err
			}
			return &client{
				lock:  func(ctx context.Context, name string) (*holding, error) { return m.lock(ctx, begin(name), s.ttl) },
				close: closeAll,
			}, nil
		},
	}
}

// attempt is one acquisition of a planted lock, with an owner of its own.
type attempt interface {
	take(ctx context.Context) (token int64, err error) // 0: somebody else has the lock
	extend(ctx context.Context) (held bool, err error) // by the TTL from now
	free(ctx context.Context) error
}

// plantedPoll is the time between two tries.
const plantedPoll = 20 * time.Millisecond

func (m *mistake) lock(ctx context.Context, a attempt, ttl time.Duration) (*holding, error) {
	for {
		asked := time.Now()
		token, err := a.take(ctx)
		if err != nil {
			return nil, err
		}
		if token != 0 {
			l := &plantedLease{attempt: a, mistake: m, ttl: ttl}
			l.prolong(asked)
			return l.hold(token), nil
		}
		select {
		case <-time.After(plantedPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// plantedLease is a lease that is renewed at a third of its TTL.
type plantedLease struct {
	attempt
	*mistake
	ttl time.Duration

	mu  sync.Mutex
	end time.Time
}

func (l *plantedLease) hold(token int64) *holding {
	renewing, stop := context.WithCancel(context.Background())
	go l.renew(renewing)
	return &holding{
		token:    token,
		held:     func() bool { return time.Now().Before(l.deadline()) },
		deadline: l.deadline,
		release: func(ctx context.Context) error {
			stop()
			return l.free(ctx)
		},
	}
}

func (l *plantedLease) renew(ctx context.Context) {
	for {
		select {
		case <-time.After(l.ttl / 3):
		case <-ctx.Done():
			return
		}
		asked := time.Now()
		if l.mistake == sendingIsProof {
			l.prolong(asked)
		}
		limited, cancel := context.WithTimeout(ctx, l.ttl/3)
		held, err := l.extend(limited)
		cancel()
		if held && err == nil {
			l.prolong(asked)
		}
	}
}

// prolong is called when the service has acknowledged a request that was sent at asked.
func (l *plantedLease) prolong(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mistake == deadlineFromReply {
		asked = time.Now()
	}
	l.end = asked.Add(l.ttl - l.ttl/100 - 2*time.Millisecond) // the rest is for clocks, as in this project
}

func (l *plantedLease) deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// meeting returns the libraries that take part in the rounds of a fault: a lock with a mistake in
// those that must find it, and one without a mistake next to such locks.
func meeting(fault string, libraries []library) (all []library) {
	for _, l := range libraries {
		if l.planted == nil || l.planted == noMistake || l.planted.fault == fault {
			all = append(all, l)
		}
	}
	if !slices.ContainsFunc(all, func(l library) bool { return l.planted != noMistake }) {
		return nil
	}
	return all
}

// found reports whether rounds with a planted lock have found its mistake.
func (l library) found(rows []*row) bool {
	for _, r := range rows {
		if r.Library == l.name && strings.Contains(strings.Join(r.Fails, "; "), l.planted.finding) {
			return true
		}
	}
	return false
}

// unsettled returns the entries for the next round: those whose mistake wasn't found yet, and next to
// them those without a mistake.
func unsettled(entries []entry) (active []entry) {
	var rows []*row
	for _, e := range entries {
		rows = append(rows, e.row)
	}
	missing := false
	for _, e := range entries {
		if e.library.planted == noMistake || !e.library.found(rows) {
			active = append(active, e)
			missing = missing || e.library.planted != noMistake
		}
	}
	if !missing {
		return nil
	}
	return active
}

// unfound returns an error that names the mistakes which no row has found, and the rows of locks
// without a mistake that fail.
func (c *campaign) unfound() (err error) {
	for _, b := range backends {
		if !c.backends.MatchString(b.name) {
			continue
		}
		rows := slices.DeleteFunc(slices.Clone(c.result.Rows), func(r *row) bool { return r.Backend != b.name })
		for _, l := range c.of(b) {
			if l.planted != noMistake && c.faults.MatchString(l.planted.fault) && !l.found(rows) {
				err = errors.Join(err, fmt.Errorf("%s, %q was not found: want %q in %d rounds of %s", b.name, l.name, l.planted.finding, c.rounds, l.planted.fault))
			}
		}
		for _, r := range rows {
			if l, e := b.library(r.Library); e == nil && l.planted == noMistake && len(r.Fails) > 0 {
				err = errors.Join(err, fmt.Errorf("a lock without a mistake fails: %s", r.summary()))
			}
		}
	}
	return err
}

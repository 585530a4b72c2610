package redlockbackend

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// lock is one acquisition: several attempts, of which the last may win.
type lock struct {
	d      *redlock
	key    string
	ttl    time.Duration
	ticket int64 // when it began to want the lock, for those who wait; 0: it doesn't
	turn   *turn // where it hears that it may ask again; nil: it doesn't listen
	waits  bool  // it has had to wait

	mu       sync.Mutex
	attempts []*attempt // that may have left something, and the last
	winner   *attempt
	released bool
}

const (
	splits    = 6                    // attempts in a row that lose a split vote
	firstBack = 2 * time.Millisecond // longest pause after the first of these, doubled with each
)

// patience is how long a Release waits for servers that are slower than the majority.
const patience = 20 * time.Millisecond

// Acquire makes attempts until one wins, or somebody has the lock; then it waits for its turn, which comes with messages
// or with time.
//
// What was sent is not given up when ctx ends, because its outcome is worth more to the clean-up than a moment; the
// servers have a time limit of their own.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	var failing time.Time // since when no majority answers
	if l.turn == nil && l.ticket != 0 && l.d.turns.listening() {
		l.turn = l.d.turns.expect(l.key) // whom the servers know may be told before it has been told to wait
	}
	for {
		if l.waits {
			if err := l.turn.wait(ctx); err != nil {
				return driver.Grant{}, err
			}
		}
		if ctx.Err() != nil {
			return driver.Grant{}, context.Cause(ctx)
		}
		a, outcome, answers := l.vote(ctx)
		switch {
		case outcome == won:
			l.mu.Lock()
			l.winner = a
			l.mu.Unlock()
			l.d.turns.forget(l.turn)
			return driver.Grant{Token: a.token, Base: a.sent, TTL: l.ttl}, nil
		case outcome != failed:
			failing = time.Time{}
		case !l.waits && (l.ticket == 0 || !answers.mayRecover()):
			return driver.Grant{}, l.d.explain(answers)
		case answers.mayRecover(): // a majority answers
			failing = time.Time{}
		case failing.IsZero(): // who waits already bears a service that fails for a moment
			failing = time.Now()
		case time.Since(failing) > l.ttl/2:
			return driver.Grant{}, l.d.explain(answers)
		}
		if l.ticket == 0 {
			return driver.Grant{}, locker.ErrHeld
		}
		if l.turn == nil {
			l.d.turns.start()
			l.turn = l.d.turns.expect(l.key)
		}
		l.turn.lookAfter(answers)
		if !failing.IsZero() { // what fails now and then, as when connections are ended, doesn't fail all the time
			l.turn.lookWithin(l.ttl / 8)
		}
		if !l.waits {
			l.waits = true
			return driver.Grant{}, driver.ErrQueued
		}
	}
}

// vote makes attempts until one has another outcome than that several have split the servers among them. The pauses are
// random, so that one of them gets ahead.
//
//nolint:contextcheck // an attempt has a time limit of its own
func (l *lock) vote(ctx context.Context) (a *attempt, outcome decision, answers tally) {
	pause := firstBack
	for range splits {
		if a, outcome, answers = l.try(); outcome != split || !redisconn.Sleep(ctx, rand.N(pause)) {
			break
		}
		pause *= 2
	}
	return a, outcome, answers
}

// mostAttempts is how many may have left something: more than are made in two TTLs of the usual length. With a longer TTL and a server
// that never answers they would be thousands. What the oldest may have left there ends by itself.
const mostAttempts = 100

// add begins an attempt. Those of which nothing is left are forgotten.
func (l *lock) add(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.attempts[:0]
	for _, old := range l.attempts {
		if old.remains(nil) != 0 {
			kept = append(kept, old)
		} else {
			a.placed |= old.takePlaces()
		}
	}
	clear(l.attempts[len(kept):])
	if len(kept) >= mostAttempts {
		a.placed |= kept[0].takePlaces()
		kept = slices.Delete(kept, 0, 1)
	}
	l.attempts = append(kept, a)
}

// held is the attempt that has won, if one has.
func (l *lock) held() *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.winner
}

func (l *lock) isReleased() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}

// Release removes what all attempts have left, from all servers. When the majority has confirmed that, the lock is free,
// and it doesn't wait long for the rest.
//
//nolint:contextcheck // a removal that was sent is not given up
func (l *lock) Release(ctx context.Context) error {
	l.mu.Lock()
	l.released = true
	attempts := l.attempts
	l.mu.Unlock()
	l.d.turns.forget(l.turn)
	for _, a := range attempts {
		a.leave()
	}
	pending := 0
	done := make(chan struct{}, len(attempts)*len(l.d.nodes))
	for _, a := range attempts {
		if which := a.remains(nil); which != 0 {
			pending += which.size()
			a.each(which, func(ctx context.Context, i int) {
				a.remove(ctx, i)
				done <- struct{}{}
			})
		}
	}
	var enough <-chan time.Time
	for ; pending > 0; pending-- {
		if enough == nil && l.remains(nil).size() < majority(len(l.d.nodes)) {
			timer := time.NewTimer(patience)
			defer timer.Stop()
			enough = timer.C
		}
		select {
		case <-done:
			continue
		case <-enough:
		case <-ctx.Done():
		}
		break
	}
	var errs [mostServers]error
	return l.d.remaining(l.remains(&errs), &errs)
}

// remains is the servers on which something may stand. If errs is given, it gets the reasons.
func (l *lock) remains(errs *[mostServers]error) (left servers) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attempts {
		left |= a.remains(errs)
	}
	return left
}

package redlockbackend

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// lock is one acquisition: several attempts, of which the last may win.
type lock struct {
	d        *redlock
	key      string
	ttl      time.Duration
	said     any     // what it says of itself, as the scripts want it
	ticket   int64   // when it began to want the lock; 0: it doesn't wait
	waiter   *waiter // where it hears that it may ask again; nil: it doesn't listen
	isQueued bool    // it has had to wait

	mu       sync.Mutex
	attempts []*attempt // that may have left something, and the last
	winner   *attempt
	released bool

	changed   chan struct{} // gets a value when a request has ended; made by Release
	followers []follower
}

const (
	maxSplitVotes = 6                    // attempts in a row that lose a split vote
	firstBackOff  = 2 * time.Millisecond // longest pause after the first of these, doubled with each

	// maxAttempts is how many attempts may have left something: more than are made in two TTLs of
	// the usual length. With a longer TTL and a server that never answers there would be thousands.
	// What the oldest may have left there ends by itself.
	maxAttempts = 100
)

// Acquire makes attempts until one wins, or somebody has the lock. Then it waits until it may ask
// again, which messages or time decide.
//
// It returns when ctx ends. What was sent is not given up then: requests to servers have their own
// timeout, and what they turn out to have granted is removed.
//
// While a waiter is queued, the engine counts its last answer as recent. So when a majority doesn't answer
// any more, a waiter says that it asks again, and when one does, that it is queued again.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if l.waiter == nil && l.ticket != 0 && l.d.waitlist.isStarted() {
		l.waiter = l.d.waitlist.enter(l.key) // servers that know the waiter may notify it before it has to wait
	}
	for {
		if l.isQueued {
			if err := l.waiter.wait(ctx); err != nil {
				return driver.Grant{}, err
			}
		}
		if ctx.Err() != nil {
			return driver.Grant{}, context.Cause(ctx)
		}
		a, outcome, all := l.vote(ctx)
		switch outcome {
		case won:
			l.mu.Lock()
			l.winner = a
			l.mu.Unlock()
			l.d.waitlist.leave(l.waiter)
			return driver.Grant{Token: a.token, Base: a.sent, TTL: l.ttl}, nil
		case abandoned:
			return driver.Grant{}, context.Cause(ctx)
		}
		answered := outcome != failed || l.ticket != 0 && all.mayRecover() // a majority has
		switch {
		case !answered && !l.isQueued:
			return driver.Grant{}, l.d.explain(all)
		case l.ticket == 0:
			return driver.Grant{}, locker.ErrHeld
		case l.waiter == nil:
			l.waiter = l.d.waitlist.enter(l.key) // first: a subscription that is confirmed wakes who is there
			l.d.waitlist.start()
		}
		w := l.waiter
		w.schedulePoll(all)
		failing := !w.failing.IsZero()
		switch {
		case answered && (failing || !l.isQueued):
			w.failing, l.isQueued = time.Time{}, true
			return driver.Grant{}, driver.ErrQueued
		case answered:
			continue
		case !failing:
			w.failing = time.Now()
		case time.Since(w.failing) > l.ttl/2: // a waiter survives a service that fails for a moment
			return driver.Grant{}, l.d.explain(all)
		}
		// The next poll comes soon, so that several short failures, for example connections that are
		// ended, don't look like one that lasts.
		w.pollWithin(l.ttl / 8)
		if !failing {
			return driver.Grant{}, &driver.HeldError{AskWithin: time.Millisecond} // at once: the engine has a shortest pause
		}
	}
}

// vote retries while attempts end in a split vote (several clients each won some servers). The
// pauses are random, so that one of the clients gets ahead.
func (l *lock) vote(ctx context.Context) (a *attempt, outcome decision, all answers) {
	pause := firstBackOff
	for range maxSplitVotes {
		if a, outcome, all = l.try(ctx); outcome != split || !kit.Sleep(ctx, rand.N(pause)) {
			break
		}
		pause *= 2
	}
	return a, outcome, all
}

// add begins an attempt. Attempts that have left nothing are dropped.
func (l *lock) add(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.attempts[:0]
	for _, old := range l.attempts {
		if old.mayRemain() {
			kept = append(kept, old)
		} else {
			a.placed |= old.takePlaces()
		}
	}
	clear(l.attempts[len(kept):])
	if len(kept) >= maxAttempts {
		a.placed |= kept[0].takePlaces()
		kept = slices.Delete(kept, 0, 1)
	}
	l.attempts = append(kept, a)
}

// winning returns the attempt that has won; nil if none has.
func (l *lock) winning() *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.winner
}

func (l *lock) isReleased() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}

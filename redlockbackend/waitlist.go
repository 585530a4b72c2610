package redlockbackend

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	pollEvery    = time.Second           // the first waiter asks that often, the second half as often, and so on; in waiters.lua as well
	stagger      = 50 * time.Millisecond // by which each waiter is later than the one before, when a lease has expired; there as well
	maxStaggered = 8                     // those that came before may be dead
	gatherFor    = 5 * time.Millisecond  // from the first message that a lock is free, for the other servers' messages
)

// waitlist is where a Locker hears that locks are free for which it waits: on one connection to
// each server, from the first wait until close.
//
// A release notifies one waiter, on each server, and keeps the lock for it for a moment. Usually
// that is the same waiter, because all servers order them by their tickets. The waiter asks when a
// majority have notified it. Messages may get lost, and the waiter that was notified may be dead.
// So all waiters also ask from time to time, and the later they came the less often. They ask when
// the lease is over that they know of. When another one begins, the next waiters are told when to
// ask at the latest.
type waitlist struct {
	d       *redlock
	channel string

	mu      sync.Mutex
	started bool
	byKey   map[string]*waiter
}

// waiter is one acquisition that waits.
type waiter struct {
	list     *waitlist
	key      string
	nextPoll time.Time  // when to ask again without a message
	failing  time.Time  // since when no majority answers; zero: one does
	changed  kit.Signal // one of these was set: free, missed, askBy

	free   servers   // that say that the lock is free; list.mu is held
	missed bool      // messages may have been missed; list.mu is held
	askBy  time.Time // when to ask at the latest, as servers say; zero: none has; list.mu is held
}

func newWaitlist(d *redlock) *waitlist {
	return &waitlist{d: d, channel: channelOf(d.prefix, driver.NewOwner()), byKey: make(map[string]*waiter)}
}

// start begins to listen. A second call does nothing.
func (l *waitlist) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = true
	for _, n := range l.d.nodes {
		n.listener.Start()
	}
}

// isStarted reports whether messages may come.
func (l *waitlist) isStarted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started
}

// enter registers an acquisition that may have to wait. The engine has at most one for each name,
// but the previous one may still be registered.
func (l *waitlist) enter(key string) *waiter {
	w := &waiter{list: l, key: key, changed: kit.NewSignal()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byKey[key] = w
	return w
}

// leave removes w; nil is allowed.
func (l *waitlist) leave(w *waiter) {
	if w == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey[w.key] == w {
		delete(l.byKey, w.key)
	}
}

// listener is the subscription on one server.
func (l *waitlist) listener(server int, client redisconn.Subscriber) *redisconn.Listener {
	return redisconn.NewListener(client, l.channel, redisconn.Events{
		Waiting:    l.isWaiting,
		Subscribed: func(context.Context) { l.wakeAll() },
		Message:    func(_ context.Context, text string) { l.hear(server, text) },
	})
}

func (l *waitlist) isWaiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byKey) > 0
}

// hear processes a message of a server: a lock is free, or when to ask about it.
func (l *waitlist) hear(server int, text string) {
	key, free, within := parseMessage(text)
	askBy := time.Now().Add(within + gatherFor)
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.byKey[key]
	switch {
	case w == nil:
	case free:
		w.free = w.free.with(server)
		w.changed.Set()
	case w.askBy.IsZero() || askBy.Before(w.askBy):
		w.askBy = askBy
		w.changed.Set()
	}
}

// wakeAll is called when a subscription is confirmed again. Messages may have been missed, and that
// server may not know the waiters.
func (l *waitlist) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.byKey {
		w.missed = true
		w.changed.Set()
	}
}

// wait returns when it is time to ask.
func (w *waiter) wait(ctx context.Context) error {
	defer w.heard(true)
	for {
		free, missed, askBy := w.heard(false)
		if free.size() >= majority(len(w.list.d.nodes)) {
			return nil
		}
		if free != 0 || missed {
			w.pollWithin(gatherFor)
		}
		if !askBy.IsZero() && askBy.Before(w.nextPoll) {
			w.nextPoll = askBy
		}
		left := time.Until(w.nextPoll)
		if left <= 0 {
			return nil
		}
		if err := w.changed.Wait(ctx, left); err != nil {
			return err
		}
	}
}

// heard returns what messages have said. If it is used up, they don't count any more.
func (w *waiter) heard(usedUp bool) (free servers, missed bool, askBy time.Time) {
	w.list.mu.Lock()
	defer w.list.mu.Unlock()
	free, missed, askBy = w.free, w.missed, w.askBy
	if usedUp {
		w.free, w.missed, w.askBy = 0, false, time.Time{}
	}
	return free, missed, askBy
}

// pollWithin brings the next poll forward.
func (w *waiter) pollWithin(d time.Duration) {
	if by := time.Now().Add(d); by.Before(w.nextPoll) {
		w.nextPoll = by
	}
}

// schedulePoll takes from the answers to an attempt that failed when to ask again: when the lease
// has expired on so many servers that they can be a majority, or after a while.
func (w *waiter) schedulePoll(all answers) {
	var left []time.Duration
	rank := -1 // the smallest; servers may differ
	for _, r := range all {
		switch {
		case r.err != nil || r.verdict != held && r.verdict != waits:
			continue
		case r.verdict == held:
			if rank < 0 || r.rank < rank {
				rank = r.rank
			}
		}
		if r.left < 0 {
			r.left = math.MaxInt64 // somebody has removed the key's expiry
		}
		left = append(left, r.left)
	}
	rank = min(max(rank, 0), 100)
	poll := time.Duration(rank+1) * pollEvery
	after := poll*3/4 + rand.N(poll/2)
	slices.Sort(left)
	if needed := majority(len(all)) - all.count(raised, granted); needed > 0 && needed <= len(left) {
		if rank > maxStaggered {
			rank = maxStaggered/2 + rand.N(maxStaggered/2+1)
		}
		if expiry := left[needed-1]; expiry < after {
			after = min(after, expiry+time.Millisecond+time.Duration(rank)*stagger+rand.N(stagger/4))
		}
	}
	w.nextPoll = time.Now().Add(after)
}

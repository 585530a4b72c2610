package redlockbackend

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	pollEvery = time.Second           // the first of those who wait asks that often, the second half as often, and so on
	stagger   = 50 * time.Millisecond // by which each of them is later than the one before, when a lease has expired
	steps     = 8                     // of that, at most: those who came before may be dead
	gather    = 5 * time.Millisecond  // from the first message that a lock is free, for those of the other servers
)

// turns is where a Locker hears that locks are free for which it waits: on one connection to each server, from the first
// wait until close.
//
// A release tells one of those who wait, on each server, and keeps the lock for it for a moment: mostly the same one, because
// all servers put them in the order of their tickets. It asks when a majority have told it. Messages may get lost, and whoever
// was told may be dead. So all ask from time to time as well, the later they came the less often.
type turns struct {
	d       *redlock
	channel string

	mu      sync.Mutex
	started bool
	byKey   map[string]*turn
}

// turn is one acquisition that waits.
type turn struct {
	t     *turns
	key   string
	free  chan int      // servers that say that the lock is free
	poked chan struct{} // messages may have been missed
	look  time.Time     // when to ask again without having been told
}

func newTurns(d *redlock) *turns {
	return &turns{d: d, channel: channelOf(d.prefix, driver.NewOwner()), byKey: make(map[string]*turn)}
}

// start begins to listen, once.
func (t *turns) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started = true
	for _, n := range t.d.nodes {
		n.listener.Start()
	}
}

// listening reports whether messages may come.
func (t *turns) listening() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.started
}

// expect is called for an acquisition that may have to wait. The engine has one for each name at a time; that of before may not be
// forgotten yet.
func (t *turns) expect(key string) *turn {
	n := len(t.d.nodes)
	w := &turn{t: t, key: key, free: make(chan int, 2*n), poked: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byKey[key] = w
	return w
}

// forget ends that, if there is one.
func (t *turns) forget(w *turn) {
	if w == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey[w.key] == w {
		delete(t.byKey, w.key)
	}
}

// listener is the subscription on one server.
func (t *turns) listener(server int, client redisconn.Subscriber) *redisconn.Listener {
	return redisconn.NewListener(client, t.channel, redisconn.Events{
		Waiting: t.waiting,
		Stands:  func(context.Context) { t.poke() },
		Hears:   func(_ context.Context, key string) { t.told(server, key) },
	})
}

// waiting reports whether anybody does.
func (t *turns) waiting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byKey) > 0
}

// told is called when a server says that a lock is free.
func (t *turns) told(server int, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.byKey[key]; w != nil {
		select {
		case w.free <- server:
		default: // it has heard enough
		}
	}
}

// poke is called when a subscription stands anew. Messages may have been missed, and those who wait aren't known there.
func (t *turns) poke() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.byKey {
		select {
		case w.poked <- struct{}{}:
		default:
		}
	}
}

// wait returns when it is time to ask.
func (w *turn) wait(ctx context.Context) error {
	var told servers
	timer := time.NewTimer(time.Until(w.look))
	defer timer.Stop()
	soon := func() {
		w.lookWithin(gather)
		timer.Reset(time.Until(w.look))
	}
	for {
		select {
		case i := <-w.free:
			if told = told.with(i); told.size() >= majority(len(w.t.d.nodes)) {
				return nil
			}
			soon()
		case <-w.poked:
			soon()
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lookWithin brings the next look forward.
func (w *turn) lookWithin(d time.Duration) {
	if by := time.Now().Add(d); by.Before(w.look) {
		w.look = by
	}
}

// lookAfter takes from the answers to a vain attempt when to ask again: when the lease has expired on as many servers as
// make a majority, or after a while.
func (w *turn) lookAfter(answers tally) {
	var left []time.Duration
	rank := -1 // the smallest; servers may differ
	for _, r := range answers {
		switch {
		case r.err != nil || r.verdict != held && r.verdict != waits:
			continue
		case r.verdict == held:
			if rank < 0 || r.rank < rank {
				rank = r.rank
			}
		}
		if r.left < 0 {
			r.left = math.MaxInt64 // somebody has taken the expiry off the key
		}
		left = append(left, r.left)
	}
	rank = min(max(rank, 0), 100)
	poll := time.Duration(rank+1) * pollEvery
	after := poll*3/4 + rand.N(poll/2)
	slices.Sort(left)
	if needed := majority(len(answers)) - answers.count(raised, granted); needed > 0 && needed <= len(left) {
		if rank > steps {
			rank = steps/2 + rand.N(steps/2+1)
		}
		if expiry := left[needed-1]; expiry < after {
			after = min(after, expiry+time.Millisecond+time.Duration(rank)*stagger+rand.N(stagger/4))
		}
	}
	w.look = time.Now().Add(after)
}

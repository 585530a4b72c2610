package redisbackend

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fencedlock/locker/driver"
)

// When a queued acquisition asks about its place, in addition to its renewals.

const (
	stagger      = 20 * time.Millisecond // between waiters that ask when a lease is over; in queue.lua as well
	maxStaggered = 4                     // Guarantees says how late a lock may be granted, and all that came before may be dead
)

// remainingLease is how long the holder's lease still lasts. If somebody has removed the key's
// expiry nobody knows that, so it guesses a TTL of l's own.
func (l *lock) remainingLease(r reply) time.Duration {
	if r.left < 0 {
		return l.ttl
	}
	return r.left
}

// scheduleRecheck takes from a reply when to ask about the place. The first in the queue asks when
// the holder's lease is over. The others ask a little later, in case those before them are dead.
// Usually their own renewals are earlier, and bring a new time.
//
// A reply to a request that was sent before a message came may know less than the message. Such a
// reply may bring the time forward, and doesn't put it off.
func (l *lock) scheduleRecheck(r reply, sent driver.Instant) {
	at := soonAfter(l.remainingLease(r) + staggerOf(r.rank))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notifiedAt >= sent {
		at = min(at, l.recheckAt)
	}
	l.setRecheck(at)
}

// notifyRecheck processes a message that says when to ask.
func (l *lock) notifyRecheck(left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notifiedAt = driver.Stamp()
	l.setRecheck(soonAfter(left))
}

// staggerOf is how much later than the first in the queue another waiter asks. The waiters at the end
// of a long queue are spread over the same time, so that they don't all come at once.
func staggerOf(rank int) time.Duration {
	if rank < maxStaggered {
		return time.Duration(rank) * stagger
	}
	return stagger + rand.N((maxStaggered-1)*stagger)
}

// soonAfter is a little later than d from now: Redis rounds milliseconds.
func soonAfter(d time.Duration) driver.Instant { return driver.Stamp().Add(d + time.Millisecond) }

// setRecheck sets when to ask. l.mu is held.
func (l *lock) setRecheck(at driver.Instant) {
	l.recheckAt = at
	l.changed.Set()
}

// recheck renews the place, which advances the queue. Its error says that the place is gone.
func (l *lock) recheck(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(l.ttl/6, messageTimeout))
	defer cancel()
	sent := driver.Stamp()
	a := l.d.router.ask(ctx, l.request(renewScript, sent)) // nobody queues in a Cluster
	if a.err != nil {                                      // the renewals go on; a server in trouble is left alone for a while
		l.mu.Lock()
		defer l.mu.Unlock()
		l.recheckAt = driver.Stamp().Add(max(l.ttl/10, 50*time.Millisecond))
		return nil
	}
	return l.renewed(a, sent)
}

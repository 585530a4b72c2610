package redisbackend

import (
	"math/rand/v2"
	"time"

	"github.com/fencedlock/locker/driver"
)

// When one that is in the queue asks about its place, beside its renewals.

const (
	step  = 20 * time.Millisecond // between those who ask when a lease is over; in queue.lua as well
	steps = 4                     // at most: Guarantees says how late a lock may be granted, and all who came before may be dead
)

// untilFree is how long the holder's lease has left. Where somebody has taken the expiry off the key nobody knows, and
// a TTL of l's own is as good as any.
func (l *lock) untilFree(r reply) time.Duration {
	if r.left < 0 {
		return l.ttl
	}
	return r.left
}

// lookAfter takes from a reply when to ask about the place again. The first in the queue asks when the holder's lease
// is over. The others leave that to it, and come a little later, in case those before them are dead: mostly their own
// renewals are earlier, and bring a new time. A reply to what was sent before a message came may know less than that:
// it brings the time forward, and doesn't put it off.
func (l *lock) lookAfter(r reply, sent driver.Instant) {
	look := in(l.untilFree(r) + stagger(r.rank))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told >= sent {
		look = min(look, l.look)
	}
	l.lookAt(look)
}

// tellLook takes in a message that says when to ask.
func (l *lock) tellLook(left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = driver.Stamp()
	l.lookAt(in(left))
}

// stagger is how much later than the first in the queue another one asks. Those far behind are spread over the same
// time, so as not to come all at once.
func stagger(rank int) time.Duration {
	if rank < steps {
		return time.Duration(rank) * step
	}
	return step + rand.N((steps-1)*step)
}

// in is a little later than d from now: Redis rounds milliseconds.
func in(d time.Duration) driver.Instant { return driver.Stamp().Add(d + time.Millisecond) }

// lookAt sets when to ask. l.mu is held.
func (l *lock) lookAt(look driver.Instant) {
	l.look = look
	select {
	case l.moved <- struct{}{}:
	default:
	}
}

func (l *lock) untilLook() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.look.Sub(driver.Stamp()), 0)
}

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
// renewals are earlier, and bring a new time.
func (l *lock) lookAfter(r reply) {
	l.lookIn(l.untilFree(r) + stagger(r.rank))
}

// stagger is how much later than the first in the queue another one asks. Those far behind are spread over the same
// time, so as not to come all at once.
func stagger(rank int) time.Duration {
	if rank < steps {
		return time.Duration(rank) * step
	}
	return step + rand.N((steps-1)*step)
}

// lookIn sets when to ask, a little later than left: Redis rounds milliseconds.
func (l *lock) lookIn(left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look = driver.Now().Add(left + time.Millisecond)
	select {
	case l.moved <- struct{}{}:
	default:
	}
}

func (l *lock) untilLook() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.look.Sub(driver.Now()), 0)
}

package driver

import (
	"sync/atomic"
	"time"
)

// Instant is a moment on a clock that goes on while the machine sleeps, in nanoseconds since an
// arbitrary start. It comes from [Stamp] only, and says nothing in another process. Zero is a
// moment like any other.
type Instant int64

// Never is later than every Instant of Stamp.
const Never Instant = 1<<63 - 1

// Add returns the moment d later. It stops at Never instead of overflowing.
func (t Instant) Add(d time.Duration) Instant {
	if sum := t + Instant(d); d <= 0 || sum > t {
		return sum
	}
	return Never
}

// floor rounds t down to a multiple of d.
func (t Instant) floor(d time.Duration) Instant {
	grid := max(Instant(d), 1)
	return t - (t%grid+grid)%grid
}

// Sub returns the time from u to t.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Go's monotonic clock stands still while the machine sleeps, and a server's does not. So an
// Instant is Go's clock plus the time that the machine has spent suspended, as far as that is
// known. What is known never shrinks, and it is never more than the truth; so Stamp is never later
// than the truth, which is right for stamps (a lease is thought to end too early at worst), while
// Now looks the suspended time up, which is right for checks.
//
// A virtual machine that its host has paused (a snapshot, a live migration, a stopped guest) is
// another matter: no clock of the guest moves meanwhile, and after the pause nothing here knows of
// it. A lease that has expired during such a pause looks valid until its next renewal is answered,
// up to a third of the TTL later. The service's clock went on, so it may have a new holder. Only
// the check of the token at the storage keeps such a holder's writes out.
//
// There is no clock to inject: in a bubble of testing/synctest the time package is the fake clock,
// and Instants are negative there.
var (
	epoch     = time.Now()
	slept     atomic.Int64      // suspended time known so far, in nanoseconds
	suspended = systemSuspended // total suspended time since the process started; tests replace it
)

// Stamp stamps a request before it is sent. It is cheap (25 ns), and it may be earlier than the
// truth when the machine has just woken up.
func Stamp() Instant { return Instant(time.Since(epoch)) + Instant(slept.Load()) }

// Now reads the system's clock (300 ns). It is for checks against a deadline, and for every moment
// that must not be too early: that at which an answer came, or the start of a span that must have
// passed.
func Now() Instant {
	total := int64(suspended())
	for known := slept.Load(); known < total; known = slept.Load() {
		if slept.CompareAndSwap(known, total) {
			break
		}
	}
	return Stamp()
}

// wall translates a moment for users. It is computed at each call, because the wall clock may be
// set and Go's own clock stands still in a suspension; either would make a stored time.Time wrong.
func (t Instant) wall() time.Time {
	now := Now()
	return time.Now().Add(t.Sub(now))
}

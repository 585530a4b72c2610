package driver

import (
	"sync/atomic"
	"time"
)

// Instant is a moment on a clock that goes on while the machine is suspended, in nanoseconds since
// an arbitrary start. It comes only from [Stamp] and [Now], and means nothing in another process.
// Zero is a moment like any other. Which of the two to call:
//
//	Stamp   may be early, never late   before a request is sent
//	Now     exact                      for checks, and when an answer has arrived
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

// Go's monotonic clock stops while the machine is suspended, and a server's clock does not. So an
// Instant is Go's clock plus the time that the machine has spent suspended, as far as the engine
// knows it. What it knows never shrinks, and is never more than the truth. So Stamp is never later
// than the truth, which is right for requests: at worst a lease is thought to end too early. Now
// looks the suspended time up, which is right for checks.
//
// On Linux these clocks show no jumps. But while a daemon corrects the system's clock gradually, they
// run slower or faster (with chrony by up to 8.3 %, unless maxslewrate says less). The allowance for
// clocks covers 1 % (validity.go).
//
// A virtual machine that its host pauses (a snapshot, a live migration, a stopped guest) is
// different: no clock of the guest moves during the pause, and after it nothing in the guest knows
// of it. A lease that expired during such a pause looks valid until its next renewal is answered,
// up to a third of the TTL later. The service's clock went on, so the lock may have a new holder.
// Only the check of the token at the storage keeps the old holder's writes out.
//
// No clock can be injected: in a bubble of testing/synctest the time package is the fake clock, and
// Instants are negative there.
var (
	epoch     = time.Now()
	slept     atomic.Int64      // suspended time known so far, in nanoseconds
	suspended = systemSuspended // total suspended time since the process started; tests replace it
)

// Stamp is the moment to note before a request is sent. It is cheap (25 ns), and may be earlier
// than the truth just after the machine was suspended.
func Stamp() Instant { return Instant(time.Since(epoch)) + Instant(slept.Load()) }

// Now reads the system's clock (300 ns). It is for checks against a deadline, and for every moment
// that must not be too early: the arrival of an answer, or the start of a span that must have
// passed.
func Now() Instant {
	total := int64(suspended())
	for known := slept.Load(); known < total; known = slept.Load() {
		slept.CompareAndSwap(known, total)
	}
	return Stamp()
}

// wall converts a moment to the wall clock, for users. It is computed at each call, because either
// of two events would make a stored time.Time wrong: the wall clock is set, or the machine is
// suspended, during which Go's own clock stops. The wall clock is read first: a process that is stopped
// between the two readings must not show a deadline that is too late.
func (t Instant) wall() time.Time {
	wall := time.Now()
	return wall.Add(t.Sub(Now()))
}

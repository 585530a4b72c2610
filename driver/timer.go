package driver

import (
	"math"
	"time"
)

// The engine knows one moment of each lease, in one heap with one timer: while it is held, its next
// renewal or its deadline; while it is queued, its next renewal; while it is kept, its next renewal
// or the end of its minimum hold; while it is being removed, the next call of Release. What is due
// is done in batches, so neither goroutines nor requests grow with the number of leases.

// maxSleep is the longest time between two ticks. Go's timers stop while the machine is suspended;
// so a deadline that passes during a suspension is noticed this long after the machine has resumed.
// (Err notices at once.)
const maxSleep = time.Second

// minSleep isn't zero, because in a bubble of testing/synctest Go runs a timer of zero at once, on the
// goroutine that sets it. Two such timers at the same time break the race detector (Go 1.26: both
// runs use the bubble's one race context), and the test ends with a fault in it.
const minSleep = time.Nanosecond

const unarmed time.Duration = math.MaxInt64

// arm sets the timer for the first moment, unless it fires early enough anyway.
func (e *engine) arm() {
	if len(e.moments) == 0 {
		return
	}
	in := min(max(e.moments[0].moment.Sub(Stamp()), minSleep), maxSleep)
	fires := time.Since(epoch) + in
	if e.fires <= fires {
		return
	}
	e.fires = fires
	if e.timer == nil {
		e.timer = time.AfterFunc(in, e.tick)
		return
	}
	e.timer.Reset(in)
}

// tick does what is due.
func (e *engine) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fires = unarmed
	now := Now()
	batches := make(map[time.Duration][]*lease)
	for len(e.moments) > 0 && e.moments[0].moment <= now {
		l := e.moments[0]
		switch {
		case e.checkDeadline(l, now): // first, because the timer may be late for a renewal
		case l.phase == kept && now >= l.keepEnd():
			e.endKeep(l)
		case l.isRenewable():
			l.renewal.start(now)
			batches[l.req.TTL] = append(batches[l.req.TTL], l)
			e.plan(l, Never)
		default: // it is being removed
			e.moments.remove(l)
			e.queueRemoval(l)
		}
	}
	for ttl, leases := range batches {
		e.startRenewal(ttl, leases)
	}
	e.arm()
}

package driver

import (
	"math"
	"time"
)

// nap is the longest the timer sleeps. Go's timers stand still while the machine is suspended; so a deadline that
// passes meanwhile is noticed this long after the machine has woken. (Err notices at once.)
const nap = time.Second

const unarmed time.Duration = math.MaxInt64

// arm sets the timer for the first moment, unless it fires early enough anyway.
func (e *engine) arm() {
	if len(e.moments) == 0 {
		return
	}
	in := min(max(e.moments[0].at.Sub(Stamp()), 0), nap)
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
	for len(e.moments) > 0 && e.moments[0].at <= now {
		l := e.moments[0]
		switch {
		case e.checkDeadline(l, now): // before a renewal that is due as well, because this timer may be late
		case l.phase == holding, l.phase == queued:
			l.renewal.start(now)
			batches[l.req.TTL] = append(batches[l.req.TTL], l)
			e.plan(l, Never)
		case l.phase == removing:
			e.moments.remove(l)
			e.queueRemoval(l)
		default:
			e.moments.remove(l)
		}
	}
	for ttl, leases := range batches {
		e.startRenewal(ttl, leases)
	}
	e.arm()
}

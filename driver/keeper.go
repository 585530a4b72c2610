package driver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fencedlock/locker"
)

// The keeper knows one moment of each lease, in one heap behind one timer: its next renewal or its deadline while it
// is held, its next renewal while it is queued, the next try while it is being removed. What is due is done in
// batches, so neither goroutines nor requests grow with the number of leases.

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
		case l.phase == holding && now >= Instant(l.deadline.Load()): // also when this timer is later than it should be
			e.checkDeadline(l)
		case l.phase == holding, l.phase == queued:
			if l.renewing = true; l.lastErr == nil {
				l.asked = now
			}
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

// startRenewal renews a batch aside, so that one that hangs delays no deadline and no other batch.
func (e *engine) startRenewal(ttl time.Duration, leases []*lease) {
	e.busy++
	go func() {
		defer e.leave()
		e.renewBatch(ttl, leases)
	}()
}

func (e *engine) renewBatch(ttl time.Duration, leases []*lease) {
	ctx, cancel := context.WithTimeout(context.Background(), renewLimit(ttl))
	defer cancel()
	if leases = e.stillRenewable(leases); len(leases) == 0 {
		return
	}
	locks := make([]Lock, len(leases))
	reported := make([]bool, len(leases))
	for i, l := range leases {
		locks[i] = l.lock
	}
	e.driver.Renew(ctx, locks, func(i int, base Instant, err error) {
		reported[i] = true
		e.renewed(leases[i], base, err, true)
	})
	for i, l := range leases {
		if !reported[i] {
			e.renewed(l, 0, errNoReport, true)
		}
	}
}

// stillRenewable leaves out what has ended since the batch was made: its removal may be over by now.
func (e *engine) stillRenewable(leases []*lease) []*lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(leases, func(l *lease) bool {
		if l.phase == holding || l.phase == queued {
			return false
		}
		l.renewing, l.renewedQueued = false, false
		return true
	})
}

// renewLimit bounds one call of Renew so that there is time for another before the deadline.
func renewLimit(ttl time.Duration) time.Duration {
	if ttl == 0 {
		return callLimit
	}
	return min(ttl/4, callLimit)
}

// renewed takes in what the service said about one lock. An answer that comes after the end is void.
func (e *engine) renewed(l *lease, base Instant, err error, background bool) {
	e.mu.Lock()
	defer e.unlock()
	void := false // it began before the grant, which may hang on an older refresh: its base says nothing of the lease
	if background {
		void = l.renewedQueued
		l.renewing, l.renewedQueued = false, false
	}
	e.checkDeadline(l)
	if l.phase != holding && l.phase != queued {
		return
	}
	if errors.Is(err, locker.ErrLost) {
		e.lose(l, err)
		return
	}
	if err != nil && !background {
		return // a caller that is impatient must not put off the next renewal
	}
	l.lastErr = err
	soon := Stamp().Add(l.ttl / 10).floor(l.ttl / 20) // those that fail together are tried again together
	switch {
	case err != nil:
		e.plan(l, soon)
	case l.phase == queued:
		e.plan(l, l.renewal(Stamp()))
	default:
		if base = min(base, Now()); base > l.base && !void { // none is in the future, whatever a driver says
			l.base = base
			l.extend()
		}
		e.plan(l, max(soon, l.renewal(l.base)))
	}
}

// renewal is when to renew what was renewed last at base: after a third of the TTL, or up to a tenth of the TTL
// earlier, on a grid of that tenth. So leases with one TTL fall due together and go in one batch, whenever they were
// acquired and whatever else is due in between.
func (l *lease) renewal(base Instant) Instant { return base.Add(l.ttl / 3).floor(l.ttl / 10) }

// plan gives a lease that is queued or held its next moment: a renewal at next, unless one is under way or none is
// wanted, or the deadline.
func (e *engine) plan(l *lease, next Instant) {
	if l.ttl == 0 || l.renewing || l.phase == holding && l.req.NoRenewal {
		next = Never
	}
	if l.phase == holding {
		next = min(next, Instant(l.deadline.Load()))
	}
	if next == Never {
		e.moments.remove(l)
		return
	}
	e.moments.set(l, next)
	e.arm()
}

// extend sets the deadline from the base, the TTL and the longest hold.
func (l *lease) extend() { l.deadline.Store(int64(min(l.expiry(), l.limit))) }

// hold begins the life of a granted lease.
func (e *engine) hold(l *lease) {
	l.phase, l.cancel, l.lastErr = holding, nil, nil
	if !l.renewing {
		l.asked = l.base
	}
	l.extend()
	e.plan(l, max(l.renewal(l.base), Stamp()))
}

// checkDeadline ends a lease whose deadline has passed.
func (e *engine) checkDeadline(l *lease) {
	now := Now()
	if l.phase != holding || now < Instant(l.deadline.Load()) {
		return
	}
	switch {
	case now >= l.limit:
		e.lose(l, locker.ErrMaxHold)
	default:
		e.lose(l, l.unrenewed(now))
	}
}

// unrenewed tells a service that fails from one that is silent, and both from a process that stood still.
func (l *lease) unrenewed(now Instant) error {
	const what = "not renewed before its deadline"
	switch {
	case l.lastErr != nil:
		return fmt.Errorf(what+": %w", l.lastErr)
	case l.renewing:
		return fmt.Errorf(what+": no answer in %v", now.Sub(l.asked).Round(time.Millisecond))
	case l.req.NoRenewal:
		return errors.New(what + ", by the caller")
	case l.asked > l.base:
		return errors.New(what + ": the service's answers prove no renewal that is new enough")
	}
	return fmt.Errorf(what+": this process was late by %v to ask", now.Sub(l.renewal(l.base)).Round(time.Millisecond))
}

// lost is what the driver calls when an acquisition is dead.
func (l *lease) lost(cause error) {
	if cause == nil {
		cause = errors.New("the driver named no cause")
	}
	l.e.mu.Lock()
	defer l.e.unlock()
	l.e.lose(l, cause)
}

// lose ends a lease that was held, or an acquisition that was not granted yet, whose Acquire then ends; see unlock.
func (e *engine) lose(l *lease, cause error) {
	switch l.phase {
	case prepared, asking, queued:
		e.unqueue(l)
		if l.cause == nil {
			l.cause = cause
		}
		if cancel := l.cancel; cancel != nil {
			e.cancels = append(e.cancels, func() { cancel(cause) })
		}
	case holding:
		if !errors.Is(cause, locker.ErrLost) {
			cause = fmt.Errorf("%w: %w", locker.ErrLost, cause)
		}
		e.end(l, cause)
		e.discard(l)
	}
}

// end makes the end of a lease known. What follows, removal, is the caller's to begin.
func (e *engine) end(l *lease, why error) {
	e.moments.remove(l)
	l.ended.Store(e.fail("lease", l.req.Name, why))
	close(l.done)
}

package conformance

import (
	"strconv"
	"time"
)

// What must be so when a program is over.

// finish ends all faults and lets everybody who waits have the lock. Then all must be as before the
// program.
func (x *execution) finish() {
	x.healAll()
	x.letKnow()
	x.locked(func() {
		x.note("the program is over, the faults end, and all leases are released as soon as they are granted")
		x.draining = true
		for _, a := range x.attempts {
			if a.lease != nil && !a.asked.happened() {
				x.releaseLocked(a, false)
			}
		}
	})
	if !x.drain() {
		return
	}
	x.wantAllFree()
	x.wantLockersUsable()
	x.wantNoResidue()
	x.wantNoRequests()
	x.wantSamePromises()
	for _, p := range x.parties {
		x.close(p)
	}
	if x.drain() {
		x.wantNoResidue()
	}
}

// drain waits until no call is under way. It reports whether that was so, and no invariant broken.
func (x *execution) drain() bool {
	limit := x.longest + x.h.guarantees.Expiry.Slack + 15*time.Second + x.grace()
	progress := time.Now()
	for {
		x.mu.Lock()
		x.sweep()
		done, under, broken, changed := x.active == 0, x.steps, x.broken, x.changed
		x.mu.Unlock()
		switch {
		case broken != nil:
			return false
		case done:
			return true
		}
		if x.waitChange(changed, x.h.HandOffLimit()) {
			progress = time.Now()
			continue
		}
		if time.Since(progress) > limit {
			x.locked(func() {
				for c := range x.calls {
					x.breach(freeIsGranted, "%s has not returned, %v after everything was released (%d operations)", c.what, limit, under)
				}
			})
			return false
		}
	}
}

// wantAllFree checks that the stranger gets all locks of the program.
func (x *execution) wantAllFree() {
	var names []string
	x.locked(func() {
		for lock, attempts := range x.locks {
			if lock == x.lockOf(x.stranger, attempts[0].name) {
				names = append(names, attempts[0].name)
			}
		}
	})
	for _, name := range names {
		if !x.usable(x.stranger, name, 0) {
			return
		}
	}
}

// wantLockersUsable checks that each Locker can still acquire a lock.
func (x *execution) wantLockersUsable() {
	for _, p := range x.parties {
		if !p.closing.happened() && !x.usable(p, x.base+"after"+strconv.Itoa(p.number), x.grace()) {
			return
		}
	}
}

// usable has p acquire and release a lock, until that works. Each failure is judged by the model,
// which knows how long something may be left. It reports whether no invariant is broken.
func (x *execution) usable(p *party, name string, grace time.Duration) bool {
	end := time.Now().Add(x.longest + x.h.guarantees.Expiry.Slack + x.h.Slack + 20*time.Second + grace)
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		x.mu.Lock()
		x.probes++
		id := -x.probes
		x.mu.Unlock()
		x.acquire(p, Step{}, id, name)
		if !x.drain() {
			return false
		}
		x.mu.Lock()
		ok, err := x.attempts[id].lease != nil, x.attempts[id].err
		if !ok && time.Now().After(end) {
			x.breach(freeIsGranted, "locker %d can't get the lock %q after the program: %v", p.number, name, err)
		}
		broken := x.broken != nil
		x.mu.Unlock()
		if ok || broken {
			return !broken
		}
		time.Sleep(pause)
	}
}

// wantNoResidue waits until nothing is left on the service.
func (x *execution) wantNoResidue() {
	if x.h.Residue == nil || x.over() {
		return
	}
	limit := x.longest + x.h.guarantees.Expiry.Slack + x.h.Slack + 15*time.Second
	for end, pause := time.Now().Add(limit), time.Millisecond; ; pause *= 2 {
		left := x.h.Residue(x.t)
		if left == "" {
			return
		}
		if time.Now().After(end) {
			x.locked(func() { x.breach(nothingStays, "left on the service after the program: %s", left) })
			return
		}
		time.Sleep(pause)
	}
}

// letKnow waits until all holders must know that an operator has removed their lock.
func (x *execution) letKnow() {
	var last time.Time
	x.locked(func() {
		for _, a := range x.attempts {
			for _, limit := range []time.Time{a.mustKnow, a.mustEnd} {
				if a.isLive() && limit.After(last) {
					last = limit
				}
			}
		}
	})
	if !last.IsZero() {
		x.until(last.Add(time.Millisecond))
		x.locked(x.sweep)
	}
}

// wantNoRequests checks that nothing is sent while nobody holds a lock or waits for one. On the real
// clock that would take too long for each program, and there is a case for it.
func (x *execution) wantNoRequests() {
	if x.h.Requests == nil || !inBubble() || x.over() {
		return
	}
	quiet := min(2*x.longest, 20*time.Minute)
	late := time.Duration(0)
	x.locked(func() {
		for _, p := range x.parties {
			for _, f := range p.faults {
				late = max(late, f.late)
			}
		}
	})
	time.Sleep(quiet + late + 20*time.Second) // until then removals may go on, and requests be on their way
	before := x.h.Requests(x.t)
	time.Sleep(quiet)
	if n := x.h.Requests(x.t) - before; n != 0 {
		x.locked(func() {
			x.breach(nothingStays, "the service has got %d requests in %v, and nobody holds a lock or waits", n, quiet)
		})
	}
}

// wantSamePromises checks that the promises of a Locker don't change.
func (x *execution) wantSamePromises() {
	for _, p := range x.parties {
		if g := p.l.Guarantees(); g != x.h.guarantees && !p.closing.happened() {
			x.locked(func() {
				x.breach(answersMatch, "locker %d promises\n%v, and another locker\n%v", p.number, g, x.h.guarantees)
			})
		}
	}
}

package driver

import (
	"maps"
	"time"

	"github.com/fencedlock/locker"
)

// counts is what locker.Stats counts. The engine's mutex guards it.
type counts struct {
	granted, contended, renewed, renewalsFailed   uint64
	released, requeued, abandoned, removalsFailed uint64
	refused, lost                                 map[string]uint64
}

func newCounts() counts {
	return counts{refused: make(map[string]uint64), lost: make(map[string]uint64)}
}

// countRefused counts a call of Acquire that has failed. It looks at the error before it takes the
// mutex: the cause of a caller's context may be of the caller's own type, with methods of its own.
func (e *engine) countRefused(err error) {
	outcome := locker.OutcomeOf(err)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts.refused[outcome]++
}

// Stats returns what the Locker does and has done.
func (e *engine) Stats() (locker.Stats, bool) {
	now := Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &e.counts
	s := locker.Stats{
		Granted: c.granted, Contended: c.contended, Refused: maps.Clone(c.refused),
		Renewed: c.renewed, RenewalsFailed: c.renewalsFailed, Lost: maps.Clone(c.lost),
		Released: c.released, Requeued: c.requeued, Abandoned: c.abandoned, RemovalsFailed: c.removalsFailed,
		EventsDropped: e.recorder.dropped,
	}
	e.eachState(func(state string, since Instant, _ *waiter, _ *lease) {
		count, oldest := &s.Held, &s.OldestHeld
		switch state {
		case locker.StateWaiting:
			count, oldest = &s.Waiting, &s.OldestWaiting
		case locker.StateKept:
			count, oldest = &s.Kept, &s.OldestKept
		case locker.StateRemoving:
			count, oldest = &s.Removing, &s.OldestRemoving
		}
		*count++
		*oldest = max(*oldest, now.Sub(since))
	})
	return s, true
}

// Leases lists everything that Stats counts as held, waiting, kept or removing.
func (e *engine) Leases() ([]locker.LeaseInfo, bool) {
	now, wall := Now(), time.Now()
	onWall := func(at Instant) time.Time { return wall.Add(at.Sub(now)) }
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]locker.LeaseInfo, 0, len(e.leases))
	e.eachState(func(state string, since Instant, w *waiter, l *lease) {
		info := locker.LeaseInfo{State: state, Since: onWall(since)}
		if w != nil {
			info.ID, info.Name, info.Slot, info.Holder = w.origin.id, w.req.Name, w.req.Slot, holder(&w.req)
		} else {
			info.ID, info.Name, info.Slot, info.Holder = l.origin.id, l.req.Name, l.req.Slot, holder(&l.req)
		}
		if l != nil && l.heldSince != Never {
			info.Token = l.token
		}
		switch {
		case state == locker.StateRemoving:
			info.Err = l.removal.lastErr
		case l != nil:
			info.Err = l.renewal.lastErr
		}
		if state == locker.StateHeld && l.deadline.instant() != Never {
			info.Deadline = onWall(l.deadline.instant())
		}
		if state == locker.StateKept {
			info.Deadline = onWall(l.keepEnd())
		}
		list = append(list, info)
	})
	return list, true
}

// eachState calls yield for each call of Acquire that waits and each acquisition that is held or
// over. A waiter may have no acquisition yet. Only a waiter that never queues (NoWait) is known by its
// acquisition alone. The engine's mutex is held.
//
// While a call of AcquirePermit has the line of a name, it is one call that waits. Acquisitions that ask
// for slots of that name are left out then.
func (e *engine) eachState(yield func(state string, since Instant, w *waiter, l *lease)) {
	lines := e.heldLines()
	for l := range e.leases {
		switch {
		case l.phase == kept:
			yield(locker.StateKept, l.endedAt, nil, l)
		case l.endedAt != Never:
			yield(locker.StateRemoving, l.removingSince(), nil, l)
		case l.phase == holding && l.req.Slot == locker.LineSlot:
			yield(locker.StateWaiting, l.origin.began, nil, l)
		case l.phase == holding:
			yield(locker.StateHeld, l.heldSince, nil, l)
		case l.req.NoWait && (l.req.Slot <= 0 || !lines[l.req.Name]):
			yield(locker.StateWaiting, l.origin.began, nil, l)
		}
	}
	for lock, q := range e.queues {
		if lock.slot > 0 && lines[lock.name] {
			continue
		}
		for w := q.head; w != nil; w = w.next {
			yield(locker.StateWaiting, w.origin.began, w, w.current)
		}
	}
}

// heldLines returns the names whose line is held; nil: there is none. The engine's mutex is held.
func (e *engine) heldLines() (lines map[string]bool) {
	for l := range e.leases {
		if l.phase == holding && l.req.Slot == locker.LineSlot && l.endedAt == Never {
			if lines == nil {
				lines = make(map[string]bool)
			}
			lines[l.req.Name] = true
		}
	}
	return lines
}

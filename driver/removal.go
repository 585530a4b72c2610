package driver

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fencedlock/locker"
)

// After every acquisition that ended without a confirmed release, something of it may still exist
// on the service, or be on its way there. So the engine calls Release until the service has
// confirmed it, with growing pauses, in a bounded number of goroutines for all leases together: a
// service that doesn't answer must not cost a goroutine for each.
//
// A service may be several servers, of which one is silent, and the engine doesn't know which lock is
// on which server. But a call that had no answer will probably have none the next time. So such
// removals have goroutines of their own. The others wait for the silent server only while maxRemovers
// first calls have no answer.

// removal is the state of the removal of what one acquisition has left. The engine's mutex guards
// it.
type removal struct {
	call     *callContext  // done when the call of Release under way has returned; nil: none is
	lastErr  error         // what the last call returned
	pause    time.Duration // before the next call
	failures int           // calls that have failed, without those after which only answers were to come

	silent        bool // the last call (before the first one: Acquire, or a renewal) had no answer
	confirmedFree bool // a call has confirmed that the lock is free for others
	ofRelease     bool // the lease was released by its holder, or by Close
	deferred      bool // it was kept for its minimum hold: its holder has the confirmation already
}

// called notes the result of the call of Release. free: that has confirmed that the lock is free for
// others. silent: there was no answer.
func (r *removal) called(err error, free, silent bool) {
	timedOut := !time.Now().Before(r.call.deadline)
	r.call, r.silent = nil, silent
	if r.lastErr == nil || !timedOut { // a time-out says less than the error before it
		r.lastErr = err
	}
	r.confirmedFree = r.confirmedFree || free
}

// nextCall returns how long to wait before the next call of Release. The jitter spreads the calls
// of many leases.
func (r *removal) nextCall(longest time.Duration) time.Duration {
	r.pause = min(max(2*r.pause, firstRemovalPause), longest)
	return r.pause/2 + rand.N(r.pause)
}

// removers are goroutines that make calls of Release, and the removals that are due for them.
type removers struct {
	due   []*lease // in order
	going int

	untilConfirmed int // goroutines at most, until a call is confirmed
}

const (
	removersInDoubt = 16  // goroutines for removals that had no answer, until one is confirmed
	maxRemovers     = 512 // after that, and for all other removals; many, because thousands may be due at once

	firstRemovalPause = 10 * time.Millisecond
)

// maxRemovalPause is short at the end of a Close, which waits for what is confirmed in time. Before
// that, a Close may wait for minimum holds.
func (e *engine) maxRemovalPause() time.Duration {
	switch {
	case !e.closed:
		return 5 * time.Second
	case time.Until(e.closeBy) > callLimit:
		return time.Second
	}
	return 100 * time.Millisecond
}

// endAcquisition ends an acquisition of which no lease comes. The driver's Acquire has returned. The
// removal waits for removeEnded.
func (e *engine) endAcquisition(l *lease) {
	e.moments.remove(l)
	l.call = nil
	if l.endedAt == Never {
		l.endedAt = Stamp()
	}
	if l.phase == prepared {
		e.finish(l)
		return
	}
	l.become(ended)
}

// removeEnded begins the removal of w's acquisition if it has ended. It is called under the same lock
// of the mutex as what notes why: a remover may fail at once, and observers must not be told of that
// before they are told of the call. The outcome can't be noted where the acquisition ends, because it
// takes a look at a foreign error, without the mutex.
func (w *waiter) removeEnded() {
	if l := w.current; l != nil && l.phase == ended {
		w.e.startRemoval(l)
	}
}

// startRemoval begins the removal of a lease that is over, or of an acquisition that has ended.
func (e *engine) startRemoval(l *lease) {
	e.moments.remove(l)
	l.become(removing)
	for _, err := range []error{l.renewal.lastErr, l.renewal.byHandErr} {
		l.removal.silent = l.removal.silent || classOfFailure(err) == locker.LossServiceSilent
	}
	if e.abandoned {
		e.abandonRemoval(l)
		return
	}
	e.queueRemoval(l)
}

// queueRemoval hands a removal that is due to its removers.
func (e *engine) queueRemoval(l *lease) {
	r := e.removersOf(l)
	r.due = append(r.due, l)
	e.addRemover(r, r.untilConfirmed)
}

func (e *engine) removersOf(l *lease) *removers {
	if l.removal.silent {
		return &e.inSilence
	}
	return &e.removers
}

// addRemover starts another remover if there is work for it and there are fewer than most.
func (e *engine) addRemover(r *removers, most int) {
	if len(r.due) > 0 && r.going < most {
		r.going++
		e.busy++
		go e.remover(r)
	}
}

// remover makes the calls of Release that are due. Its contexts are its own: what an acquisition
// has left is removed even if the caller has gone.
//
//nolint:contextcheck
func (e *engine) remover(r *removers) {
	confirmed := true
	for {
		l := e.nextRemoval(r, confirmed)
		if l == nil {
			return
		}
		confirmed = e.remove(l, l.removal.call)
	}
}

// nextRemoval claims a lease whose removal is due. It returns nil when the remover may end: nothing
// is due, or its last call confirmed nothing and more than untilConfirmed removers are going.
func (e *engine) nextRemoval(r *removers, confirmed bool) *lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(r.due) > 0 && (confirmed || r.going <= r.untilConfirmed) {
		l := r.due[0]
		r.due[0] = nil
		r.due = r.due[1:]
		if e.claimRemoval(context.Background(), l) {
			return l
		}
	}
	if len(r.due) == 0 {
		r.due = nil
	}
	r.going--
	e.busy--
	e.checkDrained()
	return nil
}

// claimRemoval claims the next call of l's Release. The context of the call has these values, and is
// done when the call has returned or its time is up. values never ends. It returns false when
// somebody else makes the call, or nothing is left to remove.
func (e *engine) claimRemoval(values context.Context, l *lease) bool {
	if l.removal.call != nil || l.phase != removing {
		return false
	}
	limit := e.releaseLimit(l)
	if limit <= 0 { // abandonRemovals is about to end it
		return false
	}
	e.busy++
	l.removal.call = newReleaseContext(values, limit)
	e.moments.remove(l)
	return true
}

var errPanicked = errors.New("the driver panicked")

// remove makes the call that was claimed, and reports whether that has confirmed the removal. Then
// it ends call, which wakes those that wait for the result. When the driver panics, on the
// goroutine of a holder that may recover, that counts as a call that has failed.
func (e *engine) remove(l *lease, call *callContext) bool {
	err := errPanicked
	defer func() {
		e.removeCalled(l, call, err)
		call.end(nil)
	}()
	err = l.lock.Release(call)
	return err == nil
}

// removeCalled processes what a call of l's Release has returned.
func (e *engine) removeCalled(l *lease, call *callContext, err error) {
	free, pending := err == nil, false
	if partial := partialOf(err); partial != nil {
		free, pending = true, partial.Pending
	}
	err = ownLimit(!time.Now().Before(call.deadline), withoutLoss(err))
	silent := errors.Is(err, locker.ErrNoAnswer)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy--
	wasFree := l.removal.confirmedFree
	made := e.removersOf(l) // the call
	l.removal.called(err, free, silent)
	e.noteRemoval(l, wasFree, err != nil && !pending, err)
	switch {
	case err == nil:
		e.finish(l)
		e.addRemover(made, maxRemovers)
	case e.abandoned || e.closed && l.removal.confirmedFree && !pending:
		e.abandonRemoval(l)
	default:
		e.moments.set(l, Stamp().Add(l.removal.nextCall(e.maxRemovalPause())))
		e.arm()
	}
}

// finish is the end of an acquisition.
func (e *engine) finish(l *lease) {
	l.become(gone)
	delete(e.leases, l)
	e.checkDrained()
}

// partialOf returns the PartialReleaseError in err; nil: there is none.
func partialOf(err error) (partial *PartialReleaseError) {
	errors.As(err, &partial)
	return partial
}

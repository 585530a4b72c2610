package driver

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// After every acquisition that ended without a confirmed release, something may still stand on the service, or be on
// its way there. So what it left is removed until the service has confirmed it, with growing pauses, by a bounded number
// of goroutines for all leases together: a service that doesn't answer must not cost a goroutine for each.

const (
	maxRemovers      = 16  // while nothing is confirmed
	mostRemovers     = 512 // while the service answers, so that thousands don't wait for each other
	firstRemovePause = 10 * time.Millisecond
)

// maxRemovePause is short for a Close, which waits for what is confirmed in time.
func (e *engine) maxRemovePause() time.Duration {
	if e.closed {
		return 100 * time.Millisecond
	}
	return 5 * time.Second
}

// discard begins the removal of an acquisition that is over. Its Acquire has returned.
func (e *engine) discard(l *lease) {
	e.moments.remove(l)
	l.cancel = nil
	switch {
	case l.phase == prepared: // nothing was sent
		e.forget(l)
	case e.abandoned:
		e.giveUpRemoval(l)
	default:
		l.phase = removing
		e.queueRemoval(l)
	}
}

// queueRemoval hands a removal that is due to the removers.
func (e *engine) queueRemoval(l *lease) {
	e.removals = append(e.removals, l)
	e.hireRemover(maxRemovers)
}

// hireRemover starts another one if there is work and there are fewer than most.
func (e *engine) hireRemover(most int) {
	if len(e.removals) > 0 && e.removers < most {
		e.removers++
		e.busy++
		go e.remover()
	}
}

// remover has contexts of its own: what an acquisition has left is removed though the caller has gone.
//
//nolint:contextcheck
func (e *engine) remover() {
	confirmed := true
	for {
		l, call, cancel := e.nextRemoval(confirmed)
		if l == nil {
			return
		}
		confirmed = e.remove(l, call, cancel)
	}
}

// nextRemoval claims a lease whose removal is due. It returns nil when the remover may go: nothing is due, or its last one was not
// confirmed, and those that are there for a service that answers are too many for one that doesn't.
func (e *engine) nextRemoval(confirmed bool) (*lease, context.Context, context.CancelFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.removals) > 0 && (confirmed || e.removers <= maxRemovers) {
		l := e.removals[0]
		e.removals[0] = nil
		e.removals = e.removals[1:]
		if call, cancel := e.claimRemoval(context.Background(), l); call != nil {
			return l, call, cancel
		}
	}
	if len(e.removals) == 0 {
		e.removals = nil
	}
	e.removers--
	e.busy--
	e.checkDrained()
	return nil, nil, nil
}

// claimRemoval claims the next call of l's Release for a caller, whose context is over when the call has returned or
// its time is up. It returns nil when another has the call, or nothing is left to remove.
func (e *engine) claimRemoval(ctx context.Context, l *lease) (context.Context, context.CancelFunc) {
	if l.removal != nil || l.phase != removing {
		return nil, nil
	}
	limit := callLimit
	if ttl := l.validity.ttl; ttl > 0 {
		limit = min(limit, ttl)
	}
	if e.closed {
		limit = min(limit, time.Until(e.closeBy))
	}
	if limit <= 0 { // abandonRemovals is about to give it up
		return nil, nil
	}
	call, cancel := context.WithTimeout(ctx, limit)
	l.removal = call
	e.moments.remove(l)
	return call, cancel
}

// remove makes the call that was claimed, and reports whether that has confirmed the removal. It cancels call when that has returned,
// which wakes those who wait for it.
func (e *engine) remove(l *lease, call context.Context, cancel context.CancelFunc) bool {
	defer cancel()
	err := l.lock.Release(call)
	e.mu.Lock()
	defer e.mu.Unlock()
	l.removal = nil
	if err == nil || l.removeErr == nil || call.Err() == nil { // that time is up says less than what was in the way before
		l.removeErr = err
	}
	l.free = l.free || err == nil || isPartial(err)
	switch {
	case err == nil:
		e.forget(l)
		e.hireRemover(mostRemovers)
	case e.abandoned || e.closed && l.free:
		e.giveUpRemoval(l)
	default:
		l.pause = min(max(2*l.pause, firstRemovePause), e.maxRemovePause())
		e.moments.set(l, Stamp().Add(l.pause/2+rand.N(l.pause)))
		e.arm()
	}
	return err == nil
}

// forget is the end of an acquisition.
func (e *engine) forget(l *lease) {
	l.phase = gone
	delete(e.leases, l)
	e.checkDrained()
}

func isPartial(err error) bool {
	var r *PartialReleaseError
	return errors.As(err, &r)
}

package driver

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// After every acquisition that ended without a confirmed release, something may still stand on the service, or be on
// its way there. So what it left is removed until the service has confirmed it, with growing pauses, by a few
// goroutines for all leases together: a service that doesn't answer must not cost a goroutine for each.

const (
	maxRemovers      = 16
	firstRemovePause = 10 * time.Millisecond
	maxRemovePause   = 5 * time.Second
)

// discard begins the removal of an acquisition that is over. Its Acquire has returned.
func (e *engine) discard(l *lease) {
	e.moments.remove(l)
	l.cancel = nil
	if l.phase == prepared { // nothing was sent
		e.forget(l)
		return
	}
	l.phase = removing
	e.queueRemoval(l)
}

// queueRemoval hands a removal that is due to the removers.
func (e *engine) queueRemoval(l *lease) {
	e.removals = append(e.removals, l)
	if e.removers < maxRemovers {
		e.removers++
		e.busy++
		go e.remover()
	}
}

// remover has contexts of its own: what an acquisition has left is removed though its caller has gone.
//
//nolint:contextcheck
func (e *engine) remover() {
	for {
		call, cancel := context.WithTimeout(context.Background(), callLimit)
		l := e.nextRemoval(call)
		if l == nil {
			cancel()
			return
		}
		e.remove(l, call, cancel)
	}
}

// nextRemoval returns a lease whose removal is due, claimed for call, or nil when the remover may go.
func (e *engine) nextRemoval(call context.Context) *lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.removals) > 0 {
		l := e.removals[0]
		e.removals[0] = nil
		e.removals = e.removals[1:]
		if e.claimRemoval(l, call) {
			return l
		}
	}
	e.removals = nil
	e.removers--
	e.busy--
	e.checkDrained()
	return nil
}

// claimRemoval claims the next call of l's Release for a caller. It is false when another has it, or nothing is left
// to remove.
func (e *engine) claimRemoval(l *lease, call context.Context) bool {
	if l.removal != nil || l.phase != removing {
		return false
	}
	l.removal = call
	e.moments.remove(l)
	return true
}

// remove makes the call that was claimed. It cancels call when that has returned, which wakes those who wait for it.
func (e *engine) remove(l *lease, call context.Context, cancel context.CancelFunc) {
	defer cancel()
	err := l.lock.Release(call)
	e.mu.Lock()
	defer e.mu.Unlock()
	l.removal, l.removeErr = nil, err
	l.free = l.free || err == nil || isRemains(err)
	switch {
	case err == nil:
		e.forget(l)
	case e.abandoned || e.closed && l.free:
		e.giveUpRemoval(l)
	default:
		l.pause = min(max(2*l.pause, firstRemovePause), maxRemovePause)
		e.moments.set(l, Now().Add(l.pause/2+rand.N(l.pause)))
		e.arm()
	}
}

// forget is the end of an acquisition.
func (e *engine) forget(l *lease) {
	l.phase = gone
	delete(e.leases, l)
	e.checkDrained()
}

func isRemains(err error) bool {
	var r *Remains
	return errors.As(err, &r)
}

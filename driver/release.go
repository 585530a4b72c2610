package driver

import (
	"context"
	"fmt"

	"github.com/fencedlock/locker"
)

// Release ends the lease at once and then waits for one try to remove it, with a time limit of its
// own. What that try leaves open is removed in the background.
//
//nolint:contextcheck
func (l *lease) Release(ctx context.Context) error {
	e := l.e
	values := context.WithoutCancel(ctx) // before the mutex is taken: without a context it panics
	e.mu.Lock()
	now := Now()
	e.checkDeadline(l, now)
	if l.phase == holding {
		e.endByHolder(l, locker.ErrReleased, now)
		if !e.keep(l, now) {
			l.become(removing)
		}
	}
	if l.wasLost() || l.removal.confirmedFree || l.removal.deferred {
		defer e.mu.Unlock()
		return l.releaseResult()
	}
	claimed := e.claimRemoval(values, l)
	call := l.removal.call
	e.mu.Unlock()
	e.release(l, call, claimed)
	e.mu.Lock()
	defer e.mu.Unlock()
	return l.releaseResult()
}

// wasLost reports whether a lease that has ended was lost, and not released.
func (l *lease) wasLost() bool { return !l.removal.ofRelease }

var errGoesOn = fmt.Errorf("%w, and goes on in the background", locker.ErrUnconfirmed)

// releaseResult is what Release returns for a lease that has ended.
func (l *lease) releaseResult() error {
	switch {
	case l.wasLost():
		return l.err()
	case l.removal.confirmedFree, l.removal.deferred:
		return nil
	}
	what, why := errGoesOn, l.removal.lastErr
	if l.phase == gone || l.e.abandoned { // Close has given it up
		what = locker.ErrUnconfirmed
	}
	if why == nil { // no call of the driver has returned
		why = locker.ErrNoAnswer
	}
	return l.e.fail("release", l.req.Name, &withCause{what, why})
}

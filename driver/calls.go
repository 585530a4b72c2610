package driver

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
)

// A client may ignore its context. So no caller and no other lease ever waits for a driver: its
// calls are made in goroutines that only Close waits for, and with time limits that don't depend on
// a caller. Which goroutine makes a call, and with which limit, is decided in this file.

// callLimit bounds every call of the driver for which no shorter limit follows from the TTL.
const callLimit = 5 * time.Second

// renewLimit bounds one call of Renew so that there is time for another before the deadline.
func renewLimit(ttl time.Duration) time.Duration {
	if ttl == 0 {
		return callLimit
	}
	return min(ttl/4, callLimit)
}

// releaseLimit bounds one call of Release. It is zero or less when the time for closing is up.
func (e *engine) releaseLimit(l *lease) time.Duration {
	limit := callLimit
	if ttl := l.validity.ttl; ttl > 0 {
		limit = min(limit, ttl)
	}
	if e.closed {
		limit = min(limit, time.Until(e.closeBy))
	}
	return limit
}

// await makes the acquisitions of w, beginning with first, and waits for the outcome. enter was
// called for the goroutine. It goes on when the caller gives up, removes what it gets, and ends
// when its call of the driver does.
func (w *waiter) await(first *lease) (*lease, error) {
	go w.run(first)
	select {
	case <-w.answered:
		return w.lease, w.err
	case <-w.ctx.Done():
		return w.giveUp(nil)
	case <-w.e.closing:
		return w.giveUp(locker.ErrClosed)
	}
}

// startRelease begins a call of l's Release, unless one is under way. It returns a context that is
// done when the call has returned or its time is up, and nil when no call is made any more.
func (e *engine) startRelease(ctx context.Context, l *lease) context.Context {
	if call, cancel := e.claimRemoval(context.WithoutCancel(ctx), l); call != nil {
		e.busy++
		go func() {
			defer e.leave()
			e.remove(l, call, cancel)
		}()
	}
	return l.removal.call
}

var errNoReport = errors.New("the driver reported nothing")

// callRenew makes one call of Renew for leases with one TTL, and calls report once for each of
// them. ctx must not end by a caller's cancel.
func (e *engine) callRenew(ctx context.Context, ttl time.Duration, leases []*lease,
	report func(l *lease, base Instant, err error)) {
	call, cancel := context.WithTimeout(ctx, renewLimit(ttl))
	defer cancel()
	locks := make([]Lock, len(leases))
	reported := make([]bool, len(leases))
	for i, l := range leases {
		locks[i] = l.lock
	}
	e.driver.Renew(call, locks, func(i int, base Instant, err error) {
		reported[i] = true
		report(leases[i], base, err)
	})
	for i, l := range leases {
		if !reported[i] {
			report(l, 0, errNoReport)
		}
	}
}

package driver

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencedlock/locker"
)

// The keeper knows one moment of each lease, in one heap behind one timer: its next renewal or its deadline while it
// is held, its next renewal while it is queued, the next try while it is being removed. What is due is done in
// batches, so neither goroutines nor requests grow with the number of leases.

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

// renewed takes in what the service said about one lock. An answer that comes after the end is void.
func (e *engine) renewed(l *lease, base Instant, err error, background bool) {
	e.mu.Lock()
	defer e.unlock()
	void := false // it began before the grant, which may hang on an older refresh: its base says nothing of the lease
	if background {
		void = l.renewedQueued
		l.renewing, l.renewedQueued = false, false
	}
	e.checkDeadline(l, Now())
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
	soon := l.validity.retryRenewal(Stamp())
	switch {
	case err != nil:
		e.plan(l, soon)
	case l.phase == queued:
		e.plan(l, l.validity.nextRenewal(Stamp()))
	default:
		if !void {
			l.extend(l.validity.renewed(base, Now()))
		}
		e.plan(l, max(soon, l.validity.nextRenewal(l.validity.base)))
	}
}

// plan gives a lease that is queued or held its next moment: a renewal at next, unless one is under way or none is
// wanted, or the deadline.
func (e *engine) plan(l *lease, next Instant) {
	if l.validity.ttl == 0 || l.renewing || l.phase == holding && l.req.NoRenewal {
		next = Never
	}
	if l.phase == holding {
		next = min(next, l.deadline.instant())
	}
	if next == Never {
		e.moments.remove(l)
		return
	}
	e.moments.set(l, next)
	e.arm()
}

// hold begins the life of a granted lease.
func (e *engine) hold(l *lease, v validity) {
	l.phase, l.cancel, l.lastErr = holding, nil, nil
	if !l.renewing {
		l.asked = v.base
	}
	l.extend(v)
	e.plan(l, max(v.nextRenewal(v.base), Stamp()))
}

// prove renews a grant until the service has confirmed it and validity is left, or has said no, or a TTL has passed.
func (e *engine) prove(ctx context.Context, l *lease, v validity) (validity, error) {
	pause := firstPause
	for until := Now().Add(v.ttl); ctx.Err() == nil; e.sleep(ctx, &pause) {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewLimit(l.req.TTL))
		err := errNoReport
		e.driver.Renew(call, []Lock{l.lock}, func(_ int, base Instant, renewErr error) {
			if err = renewErr; err == nil {
				v = v.renewed(base, Now())
			}
		})
		cancel()
		now := Now()
		switch {
		case err == nil && now < v.expiry(), errors.Is(err, locker.ErrLost):
			return v, err
		case now >= until:
			return v, errors.Join(errTooSlow, err)
		}
	}
	return v, context.Cause(ctx)
}

var errNoReport = errors.New("the driver reported nothing")

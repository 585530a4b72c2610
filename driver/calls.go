package driver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// A client may ignore its context. So no caller and no other lease ever waits for a driver: its
// calls are made in goroutines that only Close waits for, and with time limits that don't depend on
// a caller. Where the driver declares that it obeys contexts, the first request of an acquisition
// and the first try to release a lease are made on the goroutine of the caller, which would wait
// for the answer anyway: the way to another goroutine and back costs more than the engine's own
// work. Which goroutine makes a call, and with which limit, is decided in this file and in aside.go.

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
// called for that.
func (w *waiter) await(first *lease) (*lease, error) {
	if !w.e.cfg.ObeysContext {
		return w.awaitBackground(func() { w.run(w.begin(first)) })
	}
	a, err := w.beginHere(first)
	if a == nil && !requeues(err) {
		w.finish(err)
		return w.lease, w.err
	}
	return w.awaitBackground(func() { w.run(a, err) })
}

// beginHere makes the first request of l on the goroutine of the caller, and processes the answer
// unless the caller must wait for more. Then it returns the attempt, which is to go on in the
// background: there the caller can leave it at any time.
func (w *waiter) beginHere(l *lease) (a *attempt, err error) {
	returned := false
	defer func() {
		if !returned { // the driver panics, and the caller may recover
			w.abandon(l)
		}
	}()
	if a, err = w.begin(l); a != nil && !a.mustWait() {
		a, err = nil, a.conclude()
	}
	returned = true
	return a, err
}

// abandon ends the work for a caller whose goroutine leaves a call of the driver by a panic.
func (w *waiter) abandon(l *lease) {
	e := w.e
	e.mu.Lock()
	call := l.call
	if l.phase == asking {
		e.endAcquisition(l)
	}
	e.mu.Unlock()
	if call != nil {
		call.end(nil)
	}
	w.finish(errPanicked)
	e.countRefused(errPanicked)
}

// awaitBackground waits for the outcome of run in a goroutine, which goes on when the caller gives
// up, removes what it gets, and ends when its call of the driver does.
func (w *waiter) awaitBackground(run func()) (*lease, error) {
	w.answered = make(chan struct{})
	go run()
	select {
	case <-w.answered:
		return w.lease, w.err
	case <-w.ctx.Done():
		return w.giveUp(nil)
	case <-w.e.closing:
		return w.giveUp(locker.ErrClosed)
	}
}

// release makes the call of l's Release that its holder has claimed, or waits for the one that is
// under way, until it has returned or its time is up. call is nil when no call is made any more.
func (e *engine) release(l *lease, call *callContext, claimed bool) {
	switch {
	case call == nil:
		return
	case claimed && e.cfg.ObeysContext:
		e.remove(l, call)
		return
	case claimed:
		go e.remove(l, call)
	}
	<-call.Done()
}

var errNoReport = errors.New("the driver reported nothing")

// callRenew makes one call of Renew for leases with one TTL, and calls report once for each of
// them. What the driver reports later goes to answeredLate. ctx must not end by a caller's cancel.
func (e *engine) callRenew(ctx context.Context, ttl time.Duration, leases []*lease,
	report func(l *lease, base Instant, err error)) {
	call, cancel := context.WithTimeout(ctx, renewLimit(ttl))
	defer cancel()
	locks := make([]Lock, len(leases))
	for i, l := range leases {
		locks[i] = l.lock
	}
	var mu sync.Mutex // held while a report is processed, so that none is half done when this returns
	reported := make([]bool, len(leases))
	sent := Stamp()
	take := func(i int, base Instant, err error) {
		mu.Lock()
		defer mu.Unlock()
		if reported[i] {
			e.answeredLate(leases[i], sent, base, err)
			return
		}
		reported[i] = true
		report(leases[i], base, markUnanswered(call, err))
	}
	e.driver.Renew(call, locks, take)
	for i := range leases {
		mu.Lock()
		missing := !reported[i]
		mu.Unlock()
		if missing {
			take(i, 0, errNoReport)
		}
	}
}

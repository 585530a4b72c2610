package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/leasectx"
)

// Acquire queues in this process, and then asks the service; see calls.go.
func (e *engine) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := e.acquire(ctx, name, opts)
	if err != nil {
		return nil, e.fail("acquire", name, err)
	}
	return lease, nil
}

// origin is the call of Acquire that an acquisition belongs to, for events and statistics.
type origin struct {
	id     uint64
	began  Instant
	values context.Context //nolint:containedctx // of the caller's context; nil: nobody observed
}

func (e *engine) acquire(ctx context.Context, name string, opts []locker.Option) (*lease, error) {
	req, err := e.resolve(name, opts)
	if err != nil {
		return nil, err
	}
	if err := ContextError(ctx); err != nil {
		return nil, gaveUp(err, locker.OutcomeError, err)
	}
	if e.heldByCaller(ctx, subjectOf(&req)) {
		return nil, locker.ErrHeldByCaller
	}
	w := &waiter{e: e, ctx: e.trace(ctx, req), req: req}
	w.req.Trace = locker.TraceFrom(w.ctx) //nolint:contextcheck // it comes from the caller's
	lease, err := w.acquire()             //nolint:contextcheck // the waiter has the context
	if err != nil {
		e.countRefused(err)
	}
	return lease, err
}

// acquire is Acquire once the arguments are known to be good.
func (w *waiter) acquire() (*lease, error) {
	e := w.e
	if !w.enter() {
		return nil, locker.ErrClosed
	}
	first, err := w.prepareFirst()
	if err == nil {
		err = e.join(w)
	}
	if err != nil {
		return nil, w.refuse(withOutcome(err))
	}
	if w.turn != nil {
		select {
		case <-w.turn:
		case <-w.ctx.Done():
			defer e.leave()
			return w.giveUp(nil)
		case <-e.closing:
			defer e.leave()
			return w.giveUp(locker.ErrClosed)
		}
	}
	return w.await(first)
}

// enter counts the call among those that may call the driver. It returns false once the locker is
// closed.
func (w *waiter) enter() bool {
	e := w.e
	began := Stamp()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	w.origin.id, w.origin.began = e.calls, began
	if e.recorder.wants != 0 {
		w.origin.values = valuesOf(w.ctx)
	}
	if e.closed {
		e.noteRefused(w, locker.ErrClosed)
		return false
	}
	e.busy++
	return true
}

// prepareFirst makes the first acquisition, on the goroutine of the caller.
func (w *waiter) prepareFirst() (l *lease, err error) {
	returned := false
	defer func() {
		if !returned { // the driver panics, and the caller may recover
			w.e.countRefused(w.refuse(errPanicked))
		}
	}()
	l, err = w.e.prepare(w.req)
	returned = true
	if err != nil && w.req.MinHold > 0 && w.req.TTL == minHoldTTL(w.req.MinHold) {
		err = fmt.Errorf("a minimum hold of %v needs a TTL of %v: %w", w.req.MinHold, w.req.TTL, err)
	}
	return l, err
}

// refuse ends a call before it has a place in a queue, and returns err.
func (w *waiter) refuse(err error) error {
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	e.noteRefused(w, err)
	e.busy--
	e.checkDrained()
	return err
}

// heldByCaller reports whether ctx comes from the context of a lease of this engine on the same lock
// or slot. Such a wait is useless: ctx ends when the lease does. A context that never ends was
// detached from the lease on purpose, and may outlive it.
func (e *engine) heldByCaller(ctx context.Context, wanted subject) bool {
	if ctx.Done() == nil {
		return false
	}
	for _, held := range leasectx.All[locker.Lease](ctx) {
		if l, ok := locker.As[*lease](held); ok && l.e == e && subjectOf(&l.req) == wanted && l.Err() == nil {
			return true
		}
	}
	return false
}

// HeldByCaller reports whether ctx comes from the context of a lease on name. A backend that also
// gives locks out by other calls than Acquire finds this method in what New has returned.
func (e *engine) HeldByCaller(ctx context.Context, name string) bool {
	return e.heldByCaller(ctx, subject{name: name})
}

// giveUp is called when the caller leaves without an outcome. reason is nil when the caller's
// context is over. An outcome that has come at the same time is not thrown away.
func (w *waiter) giveUp(reason error) (*lease, error) {
	callerErr := w.callerErr()
	if callerErr == nil { // a context whose Done is closed before its Err is set
		callerErr = &callerGone{err: context.Canceled}
	}
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.decided {
		return w.lease, w.err
	}
	if reason == nil {
		reason = w.e.giveUpError(w, callerErr)
	}
	w.left = true
	if l := w.current; l != nil {
		w.e.unqueue(l) // nobody waits for it, so it may expire
		if l.endedAt == Never {
			l.endedAt = Stamp()
		}
	}
	w.e.leaveQueue(w)
	w.e.noteRefused(w, reason)
	return nil, reason
}

// decide gives the caller its outcome, unless it has left, and makes the next waiter the head.
func (w *waiter) decide(l *lease, err error) {
	if w.left {
		return
	}
	w.lease, w.err, w.decided = l, err, true
	w.e.leaveQueue(w)
	if err != nil {
		w.e.noteRefused(w, err)
	}
	if w.answered != nil {
		close(w.answered)
	}
}

// prepare makes a lease that has sent nothing yet.
func (e *engine) prepare(req locker.Request) (*lease, error) {
	l := &lease{
		e: e, req: req, done: make(chan struct{}), heapPos: -1,
		grantedAt: Never, heldSince: Never, keptUntil: Never, endedAt: Never,
		validity: validity{ttl: req.TTL, limit: Never},
	}
	lock, err := e.driver.Lock(req, l.lost)
	l.lock = lock
	return l, err
}

// run makes acquisitions until one has an outcome. a is the first one, whose first request was
// answered. If a is nil, the first one has ended with err. The context is the waiter's.
//
//nolint:contextcheck
func (w *waiter) run(a *attempt, err error) {
	pause := firstPause
	for {
		if a != nil {
			err = a.conclude()
		}
		if !requeues(err) {
			break
		}
		w.requeue(err)
		w.e.sleep(w.ctx, &pause, nil) // a session that dies at once each time must not make this loop spin
		a, err = w.beginNew()
	}
	w.finish(err)
}

// requeues reports whether a new acquisition must follow. It calls no method of err, because a foreign
// error in it may match anything.
func requeues(err error) bool {
	why, ok := err.(*withCause)       //nolint:errorlint // only the engine's own
	return ok && why[0] == errRequeue //nolint:errorlint // the same
}

// finish ends the work for a caller. err is nil when it has a lease.
func (w *waiter) finish(err error) {
	e := w.e
	err = withOutcome(err)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		w.decide(nil, err)
	}
	w.removeEnded()
	e.busy--
	e.checkDrained()
}

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 320 * time.Millisecond
)

// sleep waits for about *pause, or until ctx is over, and doubles *pause up to maxPause. The jitter
// keeps callers that began together from asking together. When early is closed, the first pause
// begins in the place of this one.
func (e *engine) sleep(ctx context.Context, pause *time.Duration, early <-chan struct{}) {
	d := *pause/2 + rand.N(*pause)
	*pause = min(2**pause, maxPause)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-e.closing:
	case <-early:
		*pause = firstPause
		e.sleep(ctx, pause, nil)
	}
}

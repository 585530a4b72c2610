package driver

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/leasectx"
)

// Acquire queues in this process, then asks the service in a goroutine of its own: clients may ignore a context, and
// the caller must not wait for them. A call that is left behind cleans up after itself when it ends.
func (e *engine) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := e.acquire(ctx, name, opts)
	if err != nil {
		return nil, e.fail("acquire", name, err)
	}
	return lease, nil
}

func (e *engine) acquire(ctx context.Context, name string, opts []locker.Option) (*lease, error) {
	req, err := e.resolve(name, opts)
	if err != nil {
		return nil, err
	}
	if err := ContextError(ctx); err != nil {
		return nil, err
	}
	if e.heldByCaller(ctx, name) {
		return nil, locker.ErrHeldByCaller
	}
	if !e.enter() {
		return nil, locker.ErrClosed
	}
	first, err := e.prepare(req)
	e.leave()
	if err != nil {
		return nil, err
	}
	w := &waiter{e: e, ctx: ctx, req: req, answered: make(chan struct{})}
	if err := e.join(w); err != nil {
		return nil, err
	}
	if w.turn != nil {
		select {
		case <-w.turn:
		case <-ctx.Done():
			return w.giveUp(nil)
		case <-e.closing:
			return w.giveUp(locker.ErrClosed)
		}
	}
	if !e.enter() {
		return w.giveUp(locker.ErrClosed)
	}
	return w.await(first)
}

// heldByCaller tells whether ctx comes from the context of a lease of this engine that holds the lock called name. Such a
// wait is useless: ctx ends when the lease does. A context that never ends was detached from the lease on purpose, and
// may outlive it.
func (e *engine) heldByCaller(ctx context.Context, name string) bool {
	if ctx.Done() == nil {
		return false
	}
	for _, held := range leasectx.All[locker.Lease](ctx) {
		if l, ok := locker.As[*lease](held); ok && l.e == e && l.req.Name == name && l.Err() == nil {
			return true
		}
	}
	return false
}

// giveUp is called when the caller goes without an outcome; reason is nil when its context is over. An outcome that has
// come all the same is not thrown away.
func (w *waiter) giveUp(reason error) (*lease, error) {
	over := w.over()
	if over == nil { // a context whose Done is closed before its Err is set
		over = &callerGone{err: context.Canceled}
	}
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.settled {
		return w.lease, w.err
	}
	if reason == nil {
		reason = w.e.gaveUp(w, over)
	}
	w.left = true
	if w.current != nil {
		w.e.unqueue(w.current) // what nobody waits for may die
	}
	w.e.leaveQueue(w)
	return nil, reason
}

// settle gives the caller its outcome, unless it has gone, and the queue its next head.
func (w *waiter) settle(l *lease, err error) {
	if w.left {
		return
	}
	w.lease, w.err, w.settled = l, err, true
	w.e.leaveQueue(w)
	close(w.answered)
}

// prepare makes a lease that has asked for nothing yet.
func (e *engine) prepare(req locker.Request) (*lease, error) {
	l := &lease{e: e, req: req, validity: validity{ttl: req.TTL, limit: Never}, pos: -1, done: make(chan struct{})}
	l.deadline.set(Never)
	lock, err := e.driver.Lock(req, l.lost)
	l.lock = lock
	return l, err
}

// run makes acquisitions until one has an outcome. The context is that of the waiter.
//
//nolint:contextcheck
func (w *waiter) run(l *lease) {
	e := w.e
	defer e.leave()
	pause := firstPause
	for {
		err := w.attempt(l)
		if errors.Is(err, errRequeue) {
			e.sleep(w.ctx, &pause) // a session that dies at once each time must not make this spin
			l, err = e.prepare(w.req)
			if err == nil {
				continue
			}
		}
		if err != nil {
			e.mu.Lock()
			w.settle(nil, err)
			e.mu.Unlock()
		}
		return
	}
}

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 320 * time.Millisecond
)

// sleep waits for about *pause, or until ctx is over, and doubles *pause up to maxPause. The jitter keeps those who
// began together from asking together.
func (e *engine) sleep(ctx context.Context, pause *time.Duration) {
	d := *pause/2 + rand.N(*pause)
	*pause = min(2**pause, maxPause)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-e.closing:
	}
}

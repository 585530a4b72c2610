package driver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencedlock/locker"
)

// Acquire queues in this process, then asks the service in a goroutine of its own: clients may ignore a context, and the caller must
// not wait for them. A call that is left behind cleans up after itself when it ends.
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
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	first, err := e.prepare(req)
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
	go w.run(first)
	select {
	case <-w.answered:
		return w.lease, w.err
	case <-ctx.Done():
		return w.giveUp(nil)
	case <-e.closing:
		return w.giveUp(locker.ErrClosed)
	}
}

// giveUp is called when the caller goes without an outcome; reason is nil when its context is over. An outcome that has come
// all the same is not thrown away.
func (w *waiter) giveUp(reason error) (*lease, error) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.settled {
		return w.lease, w.err
	}
	if reason == nil {
		reason = w.e.gaveUp(w)
	}
	w.left = true
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
	l := &lease{e: e, req: req, ttl: req.TTL, limit: Never, pos: -1, done: make(chan struct{})}
	l.deadline.Store(int64(Never))
	lock, err := e.driver.Lock(req, l.lost)
	l.lock = lock
	return l, err
}

// errRequeue says that an acquisition died while it waited, through no fault of the caller: the wait goes on with a new one.
var errRequeue = errors.New("acquisition is lost")

var errTooSlow = errors.New("the service took longer to answer than the lease lasts")

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

// attempt is one acquisition, from its first request until it is granted or its removal has begun.
func (w *waiter) attempt(l *lease) error {
	e := w.e
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	if err := e.begin(w, l, cancel); err != nil {
		return err
	}
	pause := firstPause
	for {
		grant, err := l.lock.Acquire(ctx)
		if err == nil {
			return w.granted(ctx, l, grant)
		}
		if err := e.heard(w, l, err); err != nil {
			return err
		}
		var held Held
		if errors.As(err, &held) && held.After == 0 {
			continue // it is queued, so the next call blocks
		}
		if held.After > 0 {
			pause = min(pause, held.After)
		}
		e.sleep(ctx, &pause)
		if err := e.asks(w, l); err != nil {
			return err
		}
	}
}

// begin registers l, so that it can be lost and closed, and is removed in the end.
func (e *engine) begin(w *waiter, l *lease, cancel context.CancelCauseFunc) error {
	e.mu.Lock()
	e.leases[l] = struct{}{}
	l.cancel = cancel
	if e.closed {
		l.cause = locker.ErrClosed
	}
	e.mu.Unlock()
	return e.asks(w, l)
}

// asks notes that the next request is going out, unless the acquisition is over.
func (e *engine) asks(w *waiter, l *lease) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.over(w, l); err != nil {
		return err
	}
	l.phase = asking
	e.moments.remove(l)
	if w.q != nil {
		w.q.asked = Now()
	}
	return nil
}

// heard deals with an answer other than a grant. It returns nil when the acquisition goes on.
func (e *engine) heard(w *waiter, l *lease, answer error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := errors.Is(answer, locker.ErrHeld)
	if w.q != nil && held {
		w.q.held, w.q.asked = true, Never
	}
	if err := e.over(w, l); err != nil {
		return err
	}
	switch {
	case held && w.req.NoWait:
		e.discard(l)
		return locker.ErrHeld
	case held:
		var h Held
		if errors.As(answer, &h) && h.After == 0 && l.phase == asking {
			l.phase = queued
			e.plan(l, Now().Add(l.ttl/3))
		}
		return nil
	}
	if w.q != nil {
		w.q.held = false
	}
	e.discard(l)
	return answer
}

// over returns the reason for which an acquisition can't go on, if there is one, and discards what it has left.
func (e *engine) over(w *waiter, l *lease) error {
	switch {
	case errors.Is(l.cause, locker.ErrClosed):
		e.discard(l)
		return locker.ErrClosed
	case w.ctx.Err() != nil:
		e.discard(l)
		return e.gaveUp(w)
	case l.cause != nil:
		e.discard(l)
		if w.req.NoWait {
			return l.cause
		}
		return fmt.Errorf("%w: %w", errRequeue, l.cause)
	}
	return nil
}

// granted makes a lease of a grant that is fresh enough. A grant that was queued for long hangs on a refresh of long ago, so it is
// proved anew first. One whose validity is used up is worth nothing: a waiter goes on waiting, and an acquisition
// that took so long without having to wait fails.
func (w *waiter) granted(ctx context.Context, l *lease, g Grant) error {
	e := w.e
	e.mu.Lock()
	stale := errTooSlow
	if l.phase == queued {
		stale = errRequeue
	}
	l.phase, l.token, l.base, l.ttl = asking, g.Token, g.Base, g.TTL
	l.renewedQueued = l.renewing
	e.moments.remove(l)
	e.mu.Unlock()
	// Without renewal the TTL is all there is, so it must not begin half used up.
	old := g.TTL / 2
	if w.req.NoRenewal {
		old = g.TTL / 20
	}
	now := Exact()
	var unproved error
	switch {
	case g.Token <= 0 || g.TTL < l.req.TTL:
		unproved = fmt.Errorf("the driver granted token %d for %v, of %v asked", g.Token, g.TTL, l.req.TTL)
	case g.TTL > 0 && now.Sub(g.Base) > old:
		unproved = e.prove(ctx, l)
		now = Exact()
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.over(w, l); err != nil {
		return err
	}
	if unproved != nil || now >= l.expiry() {
		e.discard(l)
		return errors.Join(stale, unproved)
	}
	if w.q != nil {
		w.q.held = true
	}
	if w.left {
		e.discard(l)
		return nil
	}
	if w.req.MaxHold > 0 {
		l.limit = now.Add(w.req.MaxHold)
	}
	e.hold(l)
	w.settle(l, nil)
	return nil
}

// prove renews a grant until the service has confirmed it and validity is left, or has said no, or a TTL has passed.
func (e *engine) prove(ctx context.Context, l *lease) error {
	pause := firstPause
	until := Exact().Add(l.ttl)
	for {
		callCtx, cancel := context.WithTimeout(ctx, renewLimit(l.ttl))
		err := errNoReport
		e.driver.Renew(callCtx, []Lock{l.lock}, func(_ int, base Instant, renewErr error) {
			if err = renewErr; err == nil {
				l.base = max(l.base, base)
			}
		})
		cancel()
		now := Exact()
		proved := err == nil && now < l.expiry()
		if proved || errors.Is(err, locker.ErrLost) || ctx.Err() != nil || now >= until {
			return err
		}
		e.sleep(ctx, &pause)
	}
}

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 320 * time.Millisecond
)

// sleep waits for about *pause, or until ctx is over, and doubles *pause up to maxPause. The jitter keeps those who began
// together from asking together.
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

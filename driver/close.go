package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// closeGrace is how long Close waits for calls that should have returned, once before it closes the
// driver in spite of them and once after that.
const closeGrace = time.Second

// Close ends everything and waits for it: the leases and their minimum holds, the acquisitions, the
// removals, the calls under way. Removals that aren't confirmed callLimit after the last minimum
// hold are given up, and Close's error says so. What they leave ends by itself where the backend
// has a TTL. Observers have closeGrace for the events that are left.
func (e *engine) Close() error {
	e.mu.Lock()
	first := !e.closed
	if first {
		e.closed = true
		close(e.closing)
		e.endAll()
		e.closeBy = time.Now().Add(e.longestKeep() + callLimit)
		e.checkDrained()
	}
	e.unlock()
	if first {
		e.closeErr = e.shutDown()
		e.noteClosed(e.closeErr)
		e.waitDelivered(closeGrace)
		close(e.down)
	}
	<-e.down
	return e.closeErr
}

func (e *engine) endAll() {
	for l := range e.leases {
		switch l.phase {
		case prepared, asking, queued:
			e.lose(l, newCause(locker.ErrClosed))
		case holding:
			if !e.checkDeadline(l, Now()) {
				now := Now()
				e.endByHolder(l, fmt.Errorf("%w: %w", locker.ErrReleased, locker.ErrClosed), now)
				if !e.keep(l, now) {
					e.startRemoval(l)
				}
			}
		case removing: // not at its next moment, but now
			e.moments.remove(l)
			e.queueRemoval(l)
		}
	}
}

// shutDown waits for what is under way and closes the driver, which ends calls that should have
// returned by then.
func (e *engine) shutDown() error {
	if !e.waitDrained(time.Until(e.closeBy)) {
		e.abandonRemovals()
		e.waitDrained(closeGrace)
	}
	errs := []error{e.closeDriver()}
	drained := e.waitDrained(closeGrace)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !drained {
		errs = append(errs, errors.New("a call of the driver doesn't return"))
		e.countLeft()
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	switch {
	case e.obstacle != nil:
		errs = append(errs, &withCause{unconfirmed(e.unconfirmed), e.obstacle})
	case e.unconfirmed > 0:
		errs = append(errs, unconfirmed(e.unconfirmed))
	}
	if err := errors.Join(errs...); err != nil {
		return e.fail("close", "", err)
	}
	return nil
}

// countLeft counts the leases that calls may leave on the service that don't return. e.mu is held.
func (e *engine) countLeft() {
	for l := range e.leases {
		if l.phase != prepared && !l.removal.confirmedFree {
			e.unconfirmed++
		}
	}
}

func unconfirmed(leases int) error {
	return fmt.Errorf("%w for %d leases", locker.ErrUnconfirmed, leases)
}

func (e *engine) closeDriver() error {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- e.driver.Close(ctx) }()
	select {
	case err := <-closed:
		return ownLimit(ctx.Err() != nil, err)
	case <-time.After(callLimit + closeGrace):
		return errors.New("closing the driver doesn't return")
	}
}

// abandonRemovals gives up the removals that aren't confirmed yet. Those under way are given up by
// remove.
func (e *engine) abandonRemovals() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.abandoned = true
	for l := range e.leases {
		switch {
		case l.phase == kept: // this process was stopped when the minimum hold was over
			e.endKeep(l)
		case l.phase == removing && l.removal.call == nil:
			e.abandonRemoval(l)
		}
	}
}

func (e *engine) abandonRemoval(l *lease) {
	if !l.removal.confirmedFree {
		e.unconfirmed++
		if l.removal.lastErr != nil {
			e.obstacle = l.removal.lastErr
		}
	}
	e.moments.remove(l)
	e.finish(l)
}

// checkDrained closes drained when Close has begun and nothing is left to do.
func (e *engine) checkDrained() {
	if !e.closed || e.busy > 0 || len(e.leases) > 0 {
		return
	}
	select {
	case <-e.drained:
	default:
		close(e.drained)
	}
}

func (e *engine) waitDrained(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-e.drained:
		return true
	case <-timer.C:
		return false
	}
}

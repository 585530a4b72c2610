package driver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
)

// phase is where an acquisition stands. It only moves forward, but for a grant, which takes a queued one back to
// asking until it is known to be fresh.
type phase int

const (
	prepared phase = iota // nothing was sent
	asking                // a request is under way, or the next one is being waited for
	queued                // it has its place in the service's queue; its moment is the next renewal
	holding               // it is a lease; its moment is the next renewal or the deadline
	removing              // it is over; its moment is the next try to remove what it left
	gone                  // the removal is confirmed
)

// lease is one acquisition from beginning to end; while it is holding, its caller has it as a locker.Lease.
type lease struct {
	e    *engine
	req  locker.Request
	lock Lock

	token locker.Token // from the grant on
	done  chan struct{}
	ended atomic.Pointer[locker.Error] // why the lease has ended: set once, before done is closed
	// deadline is when the lease is lost, for Err and Deadline, which don't wait for the engine's mutex.
	deadline atomic.Int64

	// The engine's mutex guards the rest.
	phase phase
	at    Instant // its moment, while it is in the heap
	pos   int     // its place in the heap; -1: none

	cancel context.CancelCauseFunc // ends the context of Acquire, until that has returned
	cause  error                   // why the acquisition died before it was granted

	base          Instant
	ttl           time.Duration // in force; 0: no end by time
	limit         Instant       // when the longest hold is over
	renewing      bool          // a background renewal is under way
	asked         Instant       // when that was begun, or the first of those that have failed since one succeeded; base before the first
	renewedQueued bool          // and it began before the grant
	lastErr       error         // of the last renewal, when it failed

	removal   context.Context // of the call of Lock.Release under way, over when that has returned; nil: none is
	removeErr error           // what the last one returned
	free      bool            // it said that the lock is free for others
	pause     time.Duration   // before the next
}

var _ locker.Lease = (*lease)(nil)

func (l *lease) Name() string          { return l.req.Name }
func (l *lease) Token() locker.Token   { return l.token }
func (l *lease) Done() <-chan struct{} { return l.done }

// Unwrap leads locker.As to what the backend offers.
func (l *lease) Unwrap() any {
	if h, ok := l.lock.(Extender); ok {
		return h.Extension()
	}
	return nil
}

func (l *lease) Deadline() time.Time {
	at := Instant(l.deadline.Load())
	if at == Never {
		return time.Time{}
	}
	return at.wall()
}

func (l *lease) Err() error {
	if end := l.ended.Load(); end != nil {
		return end
	}
	if Now() < Instant(l.deadline.Load()) {
		return nil
	}
	l.e.mu.Lock()
	l.e.checkDeadline(l)
	l.e.mu.Unlock()
	return l.err()
}

func (l *lease) err() error {
	if end := l.ended.Load(); end != nil {
		return end
	}
	return nil
}

// expiry is when the service could let somebody else in, seen from here: the allowance for clocks is taken off.
func (l *lease) expiry() Instant {
	if l.ttl == 0 {
		return Never
	}
	return l.base.Add(l.ttl - l.ttl/100 - 2*time.Millisecond)
}

var errNoReport = errors.New("the driver reported nothing")

func (l *lease) Renew(ctx context.Context) error {
	e := l.e
	if err := l.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return e.fail("renew", l.req.Name, ContextError(ctx))
	}
	if !e.enter() {
		if err := l.err(); err != nil { // Close has ended it
			return err
		}
		return e.fail("renew", l.req.Name, locker.ErrClosed)
	}
	result := make(chan error, 1)
	go func() {
		defer e.leave()
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewLimit(l.req.TTL))
		defer cancel()
		err := errNoReport
		e.driver.Renew(call, []Lock{l.lock}, func(_ int, base Instant, renewErr error) {
			err = renewErr
			e.renewed(l, base, renewErr, false)
		})
		result <- err
	}()
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		err = ContextError(ctx)
	case <-l.done:
	}
	if ended := l.Err(); ended != nil {
		return ended
	}
	if err != nil {
		return e.fail("renew", l.req.Name, err)
	}
	return nil
}

// Release ends the lease at once and then waits for one try to remove it, with a time limit of its own. What that
// doesn't settle goes on behind.
func (l *lease) Release(ctx context.Context) error {
	e := l.e
	e.mu.Lock()
	e.checkDeadline(l)
	if l.phase == holding {
		e.end(l, locker.ErrReleased)
		l.phase = removing
	}
	if end := l.err(); errors.Is(end, locker.ErrLost) || l.phase == gone || l.free {
		defer e.mu.Unlock()
		return l.released(end)
	}
	if call, cancel := e.claimRemoval(context.WithoutCancel(ctx), l); call != nil {
		e.busy++
		go func() {
			defer e.leave()
			e.remove(l, call, cancel)
		}()
	}
	removal := l.removal
	e.mu.Unlock()
	if removal != nil { // otherwise the locker's time for closing is up
		<-removal.Done()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return l.released(l.err())
}

// released is what Release says of a lease that has ended so.
func (l *lease) released(end error) error {
	switch {
	case errors.Is(end, locker.ErrLost):
		return end
	case l.free:
		return nil
	case l.removeErr == nil:
		return l.e.fail("release", l.req.Name, errors.New("no answer from the service; the removal goes on"))
	}
	return l.e.fail("release", l.req.Name, fmt.Errorf("not confirmed by the service; the removal goes on: %w", l.removeErr))
}

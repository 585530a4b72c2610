package driver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/verdict"
)

// lease is one acquisition, from its preparation to its confirmed removal. It is a lease in the
// sense of package locker only while its phase is holding: then its caller has it as a
// locker.Lease.
type lease struct {
	e    *engine
	req  locker.Request
	lock Lock

	origin   origin
	token    locker.Token // from the grant on
	deadline deadline
	endErr   atomic.Pointer[locker.Error] // why the lease has ended: set once, before done is closed
	done     chan struct{}

	// The engine's mutex guards the rest.
	phase   phase
	moment  Instant // when something is due for it, while it is in the heap
	heapPos int     // its position in the heap; -1: it isn't in it

	call  *callContext // of Acquire; nil: that has returned
	cause cause        // why the acquisition died before it was granted

	grantedAt Instant // when the grant came, which may have to be verified; Never: none has
	heldSince Instant // when the lease was granted; Never: it is none yet
	keptUntil Instant // when its minimum hold was over, if that was after its end; Never: it wasn't kept, or is still
	endedAt   Instant // when the lease ended, or nobody wanted the acquisition any more; Never: not yet

	validity validity
	renewal  renewal
	removal  removal
}

var _ locker.Lease = (*lease)(nil)

func (l *lease) Name() string          { return l.req.Name }
func (l *lease) Token() locker.Token   { return l.token }
func (l *lease) Done() <-chan struct{} { return l.done }

// String is for logs. The rest is guarded by the engine's mutex, which package fmt doesn't take.
func (l *lease) String() string {
	return fmt.Sprintf("lease on %q of %s, token %v", l.Name(), l.e.backend, l.token)
}

// Unwrap gives locker.As what the backend offers.
func (l *lease) Unwrap() any {
	if x, ok := l.lock.(Extender); ok {
		return x.Extension()
	}
	return nil
}

func (l *lease) Deadline() time.Time {
	at := l.deadline.instant()
	if at == Never {
		return time.Time{}
	}
	return at.wall()
}

func (l *lease) Err() error {
	if err := l.err(); err != nil {
		return err
	}
	now := Now()
	if !l.deadline.passed(now) {
		return nil
	}
	l.e.mu.Lock()
	l.e.checkDeadline(l, now)
	l.e.mu.Unlock()
	return l.err()
}

// err is Err without a look at the clock.
func (l *lease) err() error {
	if err := l.endErr.Load(); err != nil {
		return err
	}
	return nil
}

func (l *lease) Renew(ctx context.Context) error {
	e := l.e
	if err := l.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return e.fail("renew", l.req.Name, ContextError(ctx))
	}
	if !e.enter() { // Close has ended the lease
		return l.err()
	}
	limited, cancel := context.WithTimeout(ctx, renewLimit(l.req.TTL)+ownWords) // the driver may ignore its context
	defer cancel()
	result := make(chan error, 1)
	e.aside(limited, func() {
		var err error
		call, sent := context.WithoutCancel(ctx), Stamp()
		e.callRenew(call, l.req.TTL, []*lease{l}, func(_ *lease, base Instant, renewErr error) {
			err = renewErr
			e.renewed(l, sent, base, renewErr, false)
		})
		result <- err
	})
	var err error
	select {
	case err = <-result:
	case <-l.done:
	case <-limited.Done():
		err = locker.ErrNoAnswer
		if over := ContextError(ctx); over != nil {
			err = fmt.Errorf("%w: %w", err, over)
		}
	}
	if endErr := l.Err(); endErr != nil {
		return endErr
	}
	if err != nil {
		return e.fail("renew", l.req.Name, err)
	}
	return nil
}

// extend sets until when the lease may be trusted, at its grant and after each renewal. The deadline
// that its holder sees doesn't move after its end.
func (l *lease) extend(v validity) {
	l.validity = v
	if l.phase == holding {
		l.deadline.set(v.deadline())
	}
}

// hold makes a lease of a grant.
func (e *engine) hold(l *lease, v validity, now Instant) {
	l.become(holding)
	l.call = nil
	l.heldSince = now
	l.renewal.lastErr = nil
	l.extend(v)
	e.plan(l, max(v.nextRenewal(v.base), Stamp()))
}

// checkDeadline ends a lease whose deadline has passed, and reports whether it did.
func (e *engine) checkDeadline(l *lease, now Instant) bool {
	switch {
	case l.phase != holding || !l.deadline.passed(now):
		return false
	case now >= l.validity.limit && l.validity.limit <= l.validity.expiry(): // else it had ended before
		e.lose(l, cause{err: &verdict.Loss{Class: locker.LossMaxHold, Err: locker.ErrMaxHold}})
	default:
		e.lose(l, cause{err: l.whyNotRenewed(now)})
	}
	return true
}

// lost is what the driver calls when an acquisition is dead.
func (l *lease) lost(err error) {
	if err == nil {
		err = errors.New("the driver named no cause")
	}
	why := newCause(err)
	l.e.mu.Lock()
	defer l.e.unlock()
	l.e.lose(l, why)
}

// lose ends a lease that is held, or an acquisition that isn't granted yet. In the second case unlock
// then cancels the context of the driver's Acquire.
func (e *engine) lose(l *lease, why cause) {
	switch l.phase {
	case prepared, asking, queued:
		e.unqueue(l)
		if l.cause.err == nil {
			l.cause = why
		}
		if call := l.call; call != nil {
			e.cancels = append(e.cancels, func() { call.end(why.err) })
		}
	case holding:
		loss := classOfLoss(why.err)
		var err error = loss
		if !why.lost {
			err = &withCause{locker.ErrLost, loss}
		}
		e.end(l, err, Stamp())
		e.startRemoval(l)
		e.noteLost(l, loss.Class, err)
	case kept:
		e.endKeep(l)
	}
}

// endByHolder ends a lease that its holder releases, or that Close ends.
func (e *engine) endByHolder(l *lease, why error, at Instant) {
	l.removal.ofRelease = true
	e.end(l, why, at)
}

// end makes the end of a lease known. The caller begins its removal.
func (e *engine) end(l *lease, why error, at Instant) {
	l.endErr.Store(e.fail("lease", l.req.Name, why))
	l.endedAt = at
	close(l.done)
}

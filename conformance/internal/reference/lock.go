package reference

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// phase is what the client knows of one acquisition.
type phase int

const (
	unsent  phase = iota
	asked         // a request was sent that may create something
	waiting       // it has a place in the queue
	holding       // it has the lock
	over          // nothing exists, and nothing on its way can create anything
)

// lock is one acquisition.
type lock struct {
	client *client
	claim  claim
	noWait bool
	lost   func(cause error)
	ready  chan struct{} // closed when a waiter is granted the lock

	mu    sync.Mutex
	phase phase
	token locker.Token
	base  driver.Instant
}

// Acquire sends one request, with its first call. The second call waits for the grant.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) { return l.client.steps.ask(l, ctx) }

func (l *lock) ask(ctx context.Context) (driver.Grant, error) {
	switch l.current() {
	case waiting, holding:
		return l.client.steps.wait(l, ctx)
	}
	if ctx.Err() != nil {
		return driver.Grant{}, context.Cause(ctx)
	}
	polling := l.client.service.dialect.Polling
	if polling && l.current() == over { // the service has buried the owner of the attempt before
		l.claim.owner = l.client.steps.owner(l.client)
	}
	l.become(asked)
	l.client.register(l)
	sent := driver.Stamp()
	r, err := l.client.steps.call(l.client, ctx, timeLimit(l.claim.ttl), request{
		verb: acquire, claims: []claim{l.claim}, noWait: l.noWait || polling, sent: sent,
	})
	if err != nil {
		return driver.Grant{}, err
	}
	switch a := r.answers[0]; a.state {
	case granted:
		return l.client.steps.hold(l, a.token, sent), nil
	case queued:
		l.queue()
		return driver.Grant{}, driver.ErrQueued
	case refused:
		l.finish()
		if polling {
			return driver.Grant{}, &driver.HeldError{AskWithin: pollPause}
		}
		return driver.Grant{}, locker.ErrHeld
	}
	l.finish()
	return driver.Grant{}, errGone
}

// hold notes a grant that came as the answer to the request.
func (l *lock) hold(token locker.Token, base driver.Instant) driver.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == asked {
		l.phase, l.token, l.base = holding, token, base
	}
	return driver.Grant{Token: token, Base: base, TTL: l.client.steps.shown(l)}
}

// shown is the TTL in force.
func shown(l *lock) time.Duration { return l.claim.ttl }

// queue notes the place, unless the grant's notice has overtaken the answer.
func (l *lock) queue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == asked {
		l.phase = waiting
	}
}

// wait waits for the notice. A place that was lost is found by a renewal; the engine then ends ctx.
func (l *lock) wait(ctx context.Context) (driver.Grant, error) {
	select {
	case <-l.ready:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == holding {
		return driver.Grant{Token: l.token, Base: l.base, TTL: l.client.steps.shown(l)}, nil
	}
	if ctx.Err() != nil {
		return driver.Grant{}, context.Cause(ctx)
	}
	return driver.Grant{}, errGone
}

// granted notes a grant that came while the acquisition waited, by a notice or as the answer to a
// renewal. base is the stamp of the refresh from which the service counts the TTL.
func (l *lock) granted(token locker.Token, base driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.phase {
	case asked, waiting:
		l.phase, l.token, l.base = holding, token, base
		close(l.ready)
	case holding:
		l.base = max(l.base, base)
	}
}

// renewed processes the answer to a renewal that was sent at the given moment.
func (l *lock) renewed(a answer, sent driver.Instant) (base driver.Instant, err error) {
	switch a.state {
	case granted:
		l.granted(a.token, sent)
		return sent, nil
	case queued:
		return sent, nil
	}
	l.end(errGone)
	return 0, fmt.Errorf("%w: %w", locker.ErrLost, errGone)
}

// hear processes a notice.
func (l *lock) hear(n notice) {
	if n.token == 0 {
		l.end(n.cause)
		return
	}
	l.granted(n.token, l.client.steps.noticed(l, n))
}

// noticed is the base of a lease that was waited for.
func noticed(_ *lock, n notice) driver.Instant { return n.sent }

// end notes that the service has ended the acquisition.
func (l *lock) end(cause error) {
	l.finish()
	l.lost(cause)
}

// Release sends nothing when nothing can exist.
func (l *lock) Release(ctx context.Context) error {
	l.client.forget(l)
	if p := l.current(); p == unsent || p == over {
		return nil
	}
	err := l.client.steps.release(l, ctx)
	if err == nil {
		l.become(over)
	}
	return err
}

func (l *lock) sendRelease(ctx context.Context) error {
	_, err := l.client.steps.call(l.client, ctx, timeLimit(l.claim.ttl), request{verb: release, claims: []claim{l.claim}})
	return err
}

func (l *lock) finish() {
	l.client.forget(l)
	l.become(over)
}

func (l *lock) current() phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase
}

func (l *lock) become(p phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase = p
}

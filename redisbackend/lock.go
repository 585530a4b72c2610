package redisbackend

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

var (
	errExpired   = fmt.Errorf("%w: somebody has removed it from the server, or its TTL has passed there", locker.ErrLost)
	errOlderData = fmt.Errorf("%w: the server has gone back to older data", locker.ErrLost)
	errReleased  = fmt.Errorf("%w: the server has it as released already, or as taken away", locker.ErrLost)
)

// lock is one acquisition.
type lock struct {
	d          *redisDriver
	key        string
	owner      string
	ttl        time.Duration
	said       string // a line feed and the label, or ""
	noWait     bool   // don't queue
	notifyLost func(cause error)
	confirmed  <-chan struct{} // of grantListener, from before the last request to acquire

	mu           sync.Mutex
	remains      remains
	lingers      bool           // it may be granted the lock when it is over: see formerOwners
	removing     bool           // Release was called
	ended        driver.Instant // when the last request that creates or renews had ended
	held         bool           // the server has said that somebody else has the lock
	queued       bool           // it has a place in the queue, or had one until the grant
	token        locker.Token   // of the grant; 0: none has come
	grantHeardAt driver.Instant // when the grant came; the answer to a request that was sent before may not know of the grant
	base         driver.Instant // of a grant that came while it was queued

	recheckAt  driver.Instant // when to ask about the place, in addition to its renewals
	notifiedAt driver.Instant // when a message last said that
	tokenKept  driver.Instant // in a Cluster: when the request was sent that last renewed the last token

	changed kit.Signal // the grant has come, or recheckAt was set; nil: it can't be queued
}

// remains is what may exist of an acquisition on the server.
type remains int

const (
	none     remains = iota // nothing exists, and no request can make something exist
	possible                // something may exist, or the only copy of a request may still make it exist
	arriving                // a copy of a request that creates may still arrive, whatever the server says
)

// gone notes that the server has nothing of the acquisition. l.mu is held.
func (l *lock) gone() {
	if l.remains != arriving {
		l.remains = none
	}
}

func (l *lock) request(s *script, sent driver.Instant) request {
	r := request{script: s, key: l.key, owner: l.owner, ttl: l.ttl, sent: sent, said: l.said}
	if l.d.grants != nil {
		r.channel = l.d.grants.Channel()
	}
	return r
}

// Acquire sends a request. If the lock is granted, it returns. If a place in the queue is taken,
// the next call waits for the grant.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if l.isQueued() {
		return l.wait(ctx)
	}
	if ctx.Err() != nil {
		return driver.Grant{}, context.Cause(ctx)
	}
	listens := !l.noWait && l.d.grants.expect(l)
	sent := driver.Stamp()
	l.mu.Lock()
	l.remains, l.ended = max(l.remains, possible), sent // until there is an answer
	polling := l.held
	l.mu.Unlock()
	r := l.request(acquireScript, sent)
	r.polling = polling
	if !listens {
		r.channel = ""
	}
	ctx, cancel := l.requestContext(ctx)
	defer cancel()
	a := l.d.router.ask(ctx, r)
	grant, err := l.acquired(a, sent)
	switch {
	case a.err == nil && (a.outcome == gone || a.outcome == broken):
		l.notifyLost(err) // a copy was granted the lock, which was taken away before anybody had it
	case a.err != nil || l.noWait:
	case a.outcome == queued:
		l.scheduleRecheck(a.reply, sent)
	case a.outcome == held:
		l.d.grants.ensureListening(listens && !a.heard)
	}
	return grant, err
}

// requestContext returns the context of a request to acquire. Where the connection can't obey ctx,
// a request that was sent is not given up when ctx ends: the caller doesn't wait for it, and its
// outcome is worth something to the clean-up. The router limits requests by messageTimeout.
func (l *lock) requestContext(ctx context.Context) (context.Context, context.CancelFunc) {
	obeys := l.d.router.conn.ObeysContext()
	switch {
	case obeys && l.ttl >= messageTimeout:
		return ctx, func() {}
	case !obeys:
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, min(l.ttl, messageTimeout))
}

// acquired processes the answer to a request to acquire.
func (l *lock) acquired(a answer, sent driver.Instant) (driver.Grant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = driver.Now()
	if a.copyInFlight {
		l.remains, l.lingers = arriving, true
	}
	if a.err != nil {
		if redisconn.NotExecuted(a.err) {
			l.gone()
		} else {
			l.lingers = true
		}
		if l.held && redisconn.Says(a.err, "TRYAGAIN") { // a waiter goes on waiting until the slot has moved
			return driver.Grant{}, &driver.HeldError{AskWithin: movingPause}
		}
		return driver.Grant{}, a.err
	}
	switch a.outcome {
	case granted:
		l.token, l.grantHeardAt, l.tokenKept = a.token, driver.Stamp(), sent.Add(-keepEvery)
		return driver.Grant{Token: a.token, Base: sent, TTL: l.ttl}, nil
	case queued:
		l.queued, l.lingers = true, true
		return driver.Grant{}, driver.ErrQueued
	case held:
		l.held = true
		l.gone()
		return driver.Grant{}, l.heldError(a.reply)
	default:
		return driver.Grant{}, l.over(a.reply, errReleased)
	}
}

// heldError is the answer for an acquisition that has no place in the queue: it polls. If it may wait, it asks
// when there is a subscription.
func (l *lock) heldError(r reply) error {
	err := &driver.HeldError{AskWithin: max(l.remainingLease(r), time.Millisecond)}
	if !l.noWait {
		err.AskWhen, err.Why = l.confirmed, l.d.grants.failure()
	}
	return err
}

func (l *lock) isQueued() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queued || l.token != 0 // the grant of a place may come before the answer that it was taken
}

// wait waits for the grant of a place. When the holder's time is up, the first in the queue asks
// the server: there may be nobody else who notices it.
func (l *lock) wait(ctx context.Context) (driver.Grant, error) {
	for {
		grant, recheckAt := l.state()
		if grant.Token != 0 {
			return grant, nil
		}
		if left := recheckAt.Sub(driver.Stamp()); left > 0 {
			if err := l.changed.Wait(ctx, left); err != nil {
				return driver.Grant{}, err
			}
			continue
		}
		if err := l.recheck(ctx); err != nil {
			l.notifyLost(err) // the wait goes on, with a new acquisition
			return driver.Grant{}, err
		}
	}
}

// renewed processes the answer to a renewal. Its error is what is to be reported.
func (l *lock) renewed(a answer, sent driver.Instant) error {
	l.mu.Lock()
	l.ended = driver.Now()
	l.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	switch a.outcome {
	case granted:
		return l.granted(a.token, sent)
	case queued:
		if l.grantedBefore(sent) {
			return errOlderData
		}
		l.d.grants.ensureListening(!a.heard)
		l.scheduleRecheck(a.reply, sent)
		return nil
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.queued = false
		return l.over(a.reply, errExpired)
	}
}

// granted processes a grant that came while the acquisition was queued, in a message or with a
// renewal. The grant may be known already. base is when the refresh was sent from which the server
// counts the TTL. The error says that the lease is lost: the server has granted the lock again, and
// may have granted it to others in between.
func (l *lock) granted(token locker.Token, base driver.Instant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.token {
	case 0:
		l.token, l.grantHeardAt, l.base = token, driver.Stamp(), base
		l.changed.Set()
	case token:
		l.base = max(l.base, base)
	default:
		return errOlderData
	}
	return nil
}

// grantedBefore reports whether the grant was known when a request was sent. If the answer to that
// request is that the acquisition waits, the server has forgotten the grant.
func (l *lock) grantedBefore(sent driver.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token != 0 && sent >= l.grantHeardAt
}

// state returns the grant, which has no token if none has come, and when to ask about the place.
func (l *lock) state() (driver.Grant, driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return driver.Grant{Token: l.token, Base: l.base, TTL: l.ttl}, l.recheckAt
}

// isWaiting reports whether l has a place in the queue and no grant.
func (l *lock) isWaiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queued && l.token == 0
}

package redisbackend

import (
	"context"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// lock is one acquisition.
type lock struct {
	d        *redisDriver
	key      string
	owner    string
	ttl      time.Duration
	noWait   bool // don't queue
	tellLost func(cause error)

	mu     sync.Mutex
	asked  bool           // something may be on the server, or on its way there
	late   bool           // a request that creates may still arrive, whatever the server says
	ended  driver.Instant // when the last request that creates or renews had ended
	polled bool           // the server has said that somebody else has the lock
	queued bool           // it has a place in the queue, or had one until the grant
	token  locker.Token   // of the grant; 0: none has come
	known  driver.Instant // when it came: what was asked before may have been answered before
	base   driver.Instant // of a grant that came while it was queued
	look   driver.Instant // when to ask about the place again, beside its renewals
	told   driver.Instant // when a message last said that

	tokenKept driver.Instant // when the request was sent that last renewed the last token, in a Cluster

	ready chan struct{} // closed when the grant has come while it was queued; nil: it was never to be queued
	moved chan struct{} // look was set; buffered
}

func (l *lock) request(s *script, sent driver.Instant) request {
	r := request{script: s, key: l.key, owner: l.owner, ttl: l.ttl, sent: sent}
	if l.d.grants != nil {
		r.channel = l.d.grants.Channel()
	}
	return r
}

// Acquire sends a request, until the lock is granted or the place is taken; then it waits for the push of the grant.
//
// A request that was sent is not given up when ctx ends: its outcome is worth more to the clean-up than a moment.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if l.isQueued() {
		return l.wait(ctx)
	}
	if ctx.Err() != nil {
		return driver.Grant{}, context.Cause(ctx)
	}
	listens := !l.noWait && l.d.grants.expect(l)
	l.mu.Lock()
	l.asked = true
	polls := l.polled
	l.mu.Unlock()
	sent := driver.Stamp()
	r := l.request(acquireScript, sent)
	r.polls = polls
	if !listens {
		r.channel = ""
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(l.ttl, maxLimit))
	defer cancel()
	a := l.d.server.ask(limited, r)
	grant, err := l.acquired(a, sent)
	switch {
	case a.err != nil || l.noWait:
	case a.standing == queued:
		l.lookAfter(a.reply, sent)
	case a.standing == refused:
		l.d.grants.want(listens && !a.heard)
	}
	return grant, err
}

// acquired takes in the answer to a request to acquire.
func (l *lock) acquired(a answer, sent driver.Instant) (driver.Grant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.late = driver.Now(), l.late || a.late
	if a.err != nil {
		l.asked = l.late || !redisconn.Certain(a.err)
		if l.polled && redisconn.Says(a.err, "TRYAGAIN") { // a waiter goes on waiting until the slot has moved
			return driver.Grant{}, &driver.HeldError{RetryAfter: movingPause}
		}
		return driver.Grant{}, a.err
	}
	switch a.standing {
	case granted:
		l.token, l.known, l.tokenKept = a.token, driver.Stamp(), sent.Add(-keepEvery)
		return driver.Grant{Token: a.token, Base: sent, TTL: l.ttl}, nil
	case queued:
		l.queued = true
		return driver.Grant{}, driver.ErrQueued
	case refused:
		l.asked, l.polled = l.late, true
		return driver.Grant{}, &driver.HeldError{RetryAfter: max(l.untilFree(a.reply), time.Millisecond)}
	default:
		l.asked = l.late
		return driver.Grant{}, errBuried
	}
}

func (l *lock) isQueued() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queued || l.token != 0 // the grant of a place may come before the answer that it was taken
}

// wait waits for the grant. Whoever is first in the queue asks the server when the holder's time is up: nobody else
// may be there to notice it.
func (l *lock) wait(ctx context.Context) (driver.Grant, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(l.untilLook())
		select {
		case <-l.ready:
			return l.grant(), nil
		case <-l.moved:
			continue
		case <-timer.C:
			if err := l.ask(ctx); err != nil {
				l.tellLost(err) // no failure of the wait, which goes on with a new acquisition
				return driver.Grant{}, err
			}
			continue
		case <-ctx.Done():
		}
		select {
		case <-l.ready: // at the same time
			return l.grant(), nil
		default:
			return driver.Grant{}, context.Cause(ctx)
		}
	}
}

// ask renews the place, which advances the queue. Its error says that the place is gone.
func (l *lock) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(l.ttl/6, maxLimit))
	defer cancel()
	sent := driver.Stamp()
	a := l.d.server.ask(ctx, l.request(renewScript, sent)) // nobody queues in a Cluster
	if a.err != nil {                                      // the renewals go on; a server in trouble is left alone for a while
		l.mu.Lock()
		defer l.mu.Unlock()
		l.look = driver.Stamp().Add(max(l.ttl/10, 50*time.Millisecond))
		return nil
	}
	return l.renewed(a, sent)
}

// renewed takes in the answer to a renewal. Its error is what is to be reported.
func (l *lock) renewed(a answer, sent driver.Instant) error {
	l.mu.Lock()
	l.ended = driver.Now()
	l.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	switch a.standing {
	case granted:
		return l.granted(a.token, sent)
	case queued:
		if l.grantedBefore(sent) {
			return errOlder
		}
		l.d.grants.want(!a.heard)
		l.lookAfter(a.reply, sent)
		return nil
	default:
		l.settle()
		return errExpired
	}
}

// granted takes in a grant that came while the acquisition was queued, by push or with a renewal, which may also bring
// what is known already. base is when the refresh was sent from which the server counts the TTL. Its error says that
// the lease is lost: the server has granted the lock anew, and who knows to whom in between.
func (l *lock) granted(token locker.Token, base driver.Instant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.token {
	case 0:
		l.token, l.known, l.base = token, driver.Stamp(), base
		if l.ready != nil {
			close(l.ready)
		}
	case token:
		l.base = max(l.base, base)
	default:
		return errOlder
	}
	return nil
}

// grantedBefore reports whether the grant was known when a request was sent. If the answer is that it waits, the server
// has forgotten the grant.
func (l *lock) grantedBefore(sent driver.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token != 0 && sent >= l.known
}

func (l *lock) grant() driver.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return driver.Grant{Token: l.token, Base: l.base, TTL: l.ttl}
}

// waits reports whether l has a place in the queue and no grant.
func (l *lock) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queued && l.token == 0
}

// settle notes that nothing stands, and, unless a copy of a request is late, that nothing is on its way that could make
// something stand.
func (l *lock) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.queued = l.late, false
}

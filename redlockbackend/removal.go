package redlockbackend

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker/driver"
)

// stragglerTimeout is how long a Release waits for servers that are slower than the majority.
const stragglerTimeout = 20 * time.Millisecond

// Release removes what all attempts have left, from all servers. When a majority has confirmed
// that, the lock is free, and Release doesn't wait long for the rest.
//
//nolint:contextcheck // a removal that was sent is not given up
func (l *lock) Release(ctx context.Context) error {
	l.mu.Lock()
	l.released = true
	attempts := l.attempts
	l.mu.Unlock()
	l.d.waitlist.leave(l.waiter)
	for _, a := range attempts {
		a.includePlaces()
	}
	pending := 0
	done := make(chan struct{}, len(attempts)*len(l.d.nodes))
	for _, a := range attempts {
		if which := a.mayRemainOn(nil); which != 0 {
			pending += which.size()
			a.each(which, func(ctx context.Context, i int) {
				a.remove(ctx, i)
				done <- struct{}{}
			})
		}
	}
	var enough <-chan time.Time
	for ; pending > 0; pending-- {
		if enough == nil && l.mayRemainOn(nil).size() < majority(len(l.d.nodes)) {
			timer := time.NewTimer(stragglerTimeout)
			defer timer.Stop()
			enough = timer.C
		}
		select {
		case <-done:
			continue
		case <-enough:
		case <-ctx.Done():
		}
		break
	}
	var errs [mostServers]error
	return l.d.remaining(l.mayRemainOn(&errs), &errs)
}

// mayRemainOn returns the servers on which something may exist. If errs is given, it gets the
// reasons.
func (l *lock) mayRemainOn(errs *[mostServers]error) (left servers) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attempts {
		left |= a.mayRemainOn(errs)
	}
	return left
}

// rollBack ends a failed attempt, and removes what has been granted. Where a server has not
// answered, the goroutine that waits for it does that.
func (a *attempt) rollBack() {
	a.mu.Lock()
	a.state = rejected
	which := a.remains &^ a.asked
	a.mu.Unlock()
	if which != 0 {
		var all sync.WaitGroup
		all.Add(which.size())
		a.each(which, func(ctx context.Context, i int) {
			defer all.Done()
			a.remove(ctx, i)
		})
		all.Wait()
	}
}

// remove removes what may exist on a server, unless a removal is already being sent.
func (a *attempt) remove(ctx context.Context, i int) {
	a.mu.Lock()
	if !a.remains.has(i) || a.busy.has(i) {
		a.mu.Unlock()
		return
	}
	a.busy = a.busy.with(i)
	a.mu.Unlock()
	it := item{key: a.l.key, owner: a.owner, ttl: a.l.ttl}
	if a.l.isReleased() { // what a failed attempt has left is removed while the wait goes on, and nobody is notified
		it.token, it.ticket = 1, a.l.ticket
	}
	r := a.l.d.nodes[i].ask(ctx, releaseScript, it)
	if r.err == nil && r.verdict != released {
		r.err = errors.New(r.text)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = a.busy.minus(i)
	if r.err != nil && a.errs == nil {
		a.errs = make([]error, len(a.l.d.nodes))
	}
	if a.errs != nil {
		a.errs[i] = r.err
	}
	if r.err == nil {
		a.remains, a.backers.set = a.remains.minus(i), a.backers.set.minus(i)
	}
}

// mayRemainOn returns the servers on which something of a may exist. If errs is given, it gets the
// reasons.
func (a *attempt) mayRemainOn(errs *[mostServers]error) servers {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.remains == 0 {
		return 0
	}
	now := driver.Now()
	for which := a.remains &^ a.asked; which != 0; {
		// What the last request has set or renewed ends a TTL after that request was executed. If
		// its answer was not heard, it was executed within another TTL, or there was nothing left
		// to renew. A request that creates, and is executed even later, was delayed by a server
		// that had stopped. What it sets ends by itself as well, and the removals that failed are
		// executed after it.
		if i := which.next(); now.Sub(a.last[i]) > 2*a.l.ttl {
			a.remains = a.remains.minus(i)
		}
	}
	if errs != nil && a.errs != nil {
		for which := a.remains; which != 0; {
			i := which.next()
			errs[i] = a.errs[i]
		}
	}
	return a.remains
}

// includePlaces has the removal go to the servers, too, where the acquisition may have nothing but
// a place among the waiters.
func (a *attempt) includePlaces() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remains |= a.placed
	a.placed = 0
}

// takePlaces returns where there may be places, once.
func (a *attempt) takePlaces() servers {
	a.mu.Lock()
	defer a.mu.Unlock()
	placed := a.placed
	a.placed = 0
	return placed
}

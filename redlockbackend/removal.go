package redlockbackend

import (
	"cmp"
	"context"
	"errors"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// errTrailing is the error of a Release after which the lock is free for others, while answers of servers
// are still to come. Release is called again, and asks those that fail.
var errTrailing = &driver.PartialReleaseError{
	Err:     errors.New("what may exist keeps nobody out, and some servers are still to answer"),
	Pending: true,
}

// Release removes what all attempts have left, from all servers. When the lock is free for others on a
// majority, Release doesn't wait for the rest: see removalState.
func (l *lock) Release(ctx context.Context) error {
	l.mu.Lock()
	again := l.released
	l.released = true
	if l.changed == nil {
		l.changed = make(chan struct{}, 1)
	}
	attempts := l.attempts
	l.mu.Unlock()
	l.d.waitlist.leave(l.waiter)
	l.d.trailing.add(l, again)
	for _, a := range attempts {
		a.leave()
	}
	defer l.trail()
	for {
		r := l.removalState(nil)
		switch {
		case r.remains == 0:
			return nil
		case r.pending == 0, r.isFree(len(l.d.nodes)):
			return l.removalError()
		}
		select {
		case <-l.changed:
		case <-ctx.Done():
			return l.removalError()
		}
	}
}

// pending returns the servers to which a request is still under way.
func (a *attempt) pending() servers {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked | a.busy
}

// leave begins the removal of an attempt of an acquisition that is over, from all servers. Where a
// request is still to be answered, the removal follows the answer. Places among the waiters are
// removed as well. A removal that is already under way leaves them, so another one follows it.
func (a *attempt) leave() {
	a.mu.Lock()
	a.state, a.released = over, true
	a.removePlaces(a.placed)
	a.placed &= a.asked | a.busy // see heard and removed
	a.forget()
	which := a.claim(a.remains &^ a.asked)
	a.mu.Unlock()
	a.remove(which)
}

// removePlaces notes that places among the waiters may be left on some servers. a.mu is held.
func (a *attempt) removePlaces(which servers) {
	a.keyless |= which &^ a.remains
	a.remains |= which
}

// rollBack ends a failed attempt, and removes what has been granted. Where a server has not
// answered, the removal follows the answer. It returns when that is done, or when ctx ends.
func (a *attempt) rollBack(ctx context.Context) {
	a.mu.Lock()
	a.state = over
	which := a.claim(a.remains &^ a.asked)
	a.mu.Unlock()
	if r := a.remove(which); r != nil {
		select {
		case <-r.requests.ended:
		case <-ctx.Done():
		}
	}
}

// claim notes that a removal begins on some servers. It returns those on which something may exist
// and none has begun: the caller asks them. a.mu is held.
func (a *attempt) claim(which servers) servers {
	which &= a.remains &^ a.busy
	a.busy |= which
	return which
}

// removal is a release that is sent to some servers at the same time.
type removal struct {
	a        *attempt
	item     *item
	requests requests
}

//nolint:contextcheck // a removal that was sent is not given up
func (a *attempt) newRemoval(which servers) *removal {
	r := &removal{a: a, item: a.releaseItem()}
	limit := a.l.d.timeoutFor(a.l.ttl)
	if a.l.isReleased() { // the engine waits for a TTL
		limit = min(a.l.d.serverTimeout, a.l.ttl)
	}
	r.requests.begin(limit, which)
	r.requests.ended = make(chan struct{})
	return r
}

// releaseItem returns what releases tell the servers. What a failed attempt has left is removed
// while the wait goes on, and nobody is notified. The TTL is the tombstone's, which lasts until this
// process sends nothing of the attempt any more, however short the lease is.
func (a *attempt) releaseItem() *item {
	ttl := max(a.l.ttl, a.l.d.unsentLimit)
	if !a.l.isReleased() {
		return newItem(a.l.key, a.owner, 0, ttl, 0, nothingSaid)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.release == nil {
		a.release = newItem(a.l.key, a.owner, 1, ttl, a.l.ticket, a.l.said)
	}
	return a.release
}

// remove begins the removal from servers that were claimed; nil: there are none.
func (a *attempt) remove(which servers) *removal {
	if which == 0 {
		return nil
	}
	r := a.newRemoval(which)
	for which != 0 {
		a.l.d.workers.run(r, which.next())
	}
	return r
}

// run asks server i.
func (r *removal) run(i int) {
	a := r.a
	answer := r.ask(i)
	if answer.err == nil && answer.verdict != released {
		answer.err = errors.New(answer.text)
	}
	again := a.removed(i, answer.err)
	r.requests.done()
	if again {
		a.newRemoval(servers(0).with(i)).run(i)
		return
	}
	a.l.ended(i)
}

// ask sends the release to server i, and again when its connection turns out to be broken, as all of
// them are after a restart of the server: a release may be repeated. The server counts as busy
// in the meantime, so the next acquisition doesn't overtake the repetition. A server that is silent
// or refuses connections is left to the next call of Release.
func (r *removal) ask(i int) (answer reply) {
	for range maxReleaseTries {
		answer = r.a.l.d.nodes[i].ask(r.requests.ctx, releaseScript, r.item)
		if !redisconn.Broken(answer.err) || r.requests.ctx.Err() != nil {
			break
		}
	}
	return answer
}

// maxReleaseTries is how often a release is sent at most. As many connections of a pool may be
// broken.
const maxReleaseTries = 4

// removed notes what became of a removal from server i. It reports whether the caller must remove
// once more: the removal was sent before the acquisition was over, and a place may be left.
func (a *attempt) removed(i int, err error) (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = a.busy.minus(i)
	if err != nil && a.errs == nil {
		a.errs = make([]error, len(a.on))
	}
	if a.errs != nil {
		a.errs[i] = err
	}
	switch {
	case err == nil:
		a.remains, a.backers, a.failed = a.remains.minus(i), a.backers.minus(i), a.failed.minus(i)
	case a.released:
		a.failed = a.failed.with(i)
	}
	if !a.released || !a.placed.has(i) {
		return false
	}
	a.removePlaces(servers(0).with(i))
	a.placed = a.placed.minus(i)
	return a.claim(servers(0).with(i)) != 0
}

// mayRemain reports whether something of a may exist on a server.
func (a *attempt) mayRemain() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget()
	return a.remains != 0
}

// addTo adds to r what is known of a, all at one moment: a removal that fails is still pending, or
// is among those that have failed. If errs is given, it gets the reasons, and what has failed counts
// as said.
func (a *attempt) addTo(r *removalState, errs *[mostServers]error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget()
	r.remains |= a.remains
	r.holdsKey |= a.remains &^ a.keyless
	r.pending |= a.asked | a.busy
	if errs == nil {
		return
	}
	r.failed |= a.failed
	a.failed = 0
	if a.errs == nil {
		return
	}
	for which := a.remains; which != 0; {
		i := which.next()
		errs[i] = cmp.Or(errs[i], a.errs[i])
	}
}

// forget drops the servers on which nothing can exist any more. a.mu is held.
//
// What the last request has set or renewed ends a TTL after that request was executed. If its
// answer was not heard, it has left this process within unsentLimit, and was executed within another
// TTL, or there was nothing left to renew. A request that creates, and is executed even later, was
// delayed by a server that had stopped. What it sets ends by itself as well, and the removals that
// failed are executed after it.
func (a *attempt) forget() {
	which := a.remains &^ a.asked
	if which == 0 {
		return
	}
	for now := driver.Now(); which != 0; {
		if i := which.next(); now.Sub(a.on[i].last) > 2*a.l.ttl+a.l.d.unsentLimit {
			a.remains = a.remains.minus(i)
		}
	}
}

// takePlaces returns the servers that may have noted that a waits, and forgets them.
func (a *attempt) takePlaces() servers {
	a.mu.Lock()
	defer a.mu.Unlock()
	placed := a.placed
	a.placed = 0
	return placed
}

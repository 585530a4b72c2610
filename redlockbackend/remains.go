package redlockbackend

import (
	"errors"
	"fmt"

	"github.com/fencedlock/locker/driver"
)

// removalState is what a Release knows of the servers.
//
// The lock is free for others when they can get it on a majority. So a server counts only if no key of
// the acquisition is left there, and the server would let somebody in. Of a lease, only those count that
// had it: a server that refused the request, takes no part, or had another holder keeps others out,
// together with a server on which the lease is left. The same may be true of one whose answer was lost.
type removalState struct {
	left    servers // something may exist there
	keys    servers // and it may be the lock's key. Else it is a place among those who wait, which keeps nobody out
	shut    servers // they may let nobody in, whatever is left there
	pending servers // a request is still under way
}

// isFree reports whether the lock is free for others, on n servers.
func (r *removalState) isFree(n int) bool { return n-(r.keys|r.shut).size() >= majority(n) }

// errShut is why a server on which nothing is left doesn't count.
var errShut = errors.New("nothing is left there, but it has not had the lease, or takes no part")

// removalState returns what is known now. If errs is given, it gets the reasons.
func (l *lock) removalState(errs *[mostServers]error) removalState {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := removalState{pending: l.pending()}
	for _, a := range l.attempts {
		left, keys := a.mayRemainOn(errs)
		r.left, r.keys = r.left|left, r.keys|keys
	}
	if n := len(l.attempts); n > 0 { // the answers to the last attempt are the latest
		last := l.attempts[n-1]
		r.shut = last.keepingOut(last == l.winner)
	}
	return r
}

// keepingOut returns the servers that may let nobody in. If the attempt has failed, another holder on a
// server isn't one of them: it has the lock, and its release lets others in. If the attempt has won, that
// is a remainder of somebody.
func (a *attempt) keepingOut(won bool) servers {
	a.mu.Lock()
	defer a.mu.Unlock()
	if won {
		return a.shut | allOf(len(a.on))&^a.had
	}
	return a.shut
}

// noteShut notes that server i takes no part. a.mu is held.
func (a *attempt) noteShut(i int, r reply) {
	if r.err == nil && (r.verdict == waits || r.verdict == differs) {
		a.shut = a.shut.with(i)
	}
}

// removalError is the error of a Release after which something may exist on some servers.
func (l *lock) removalError() error {
	var errs [mostServers]error
	r := l.removalState(&errs)
	if r.left == 0 {
		return nil
	}
	n, why := len(l.d.nodes), make(map[int]error)
	what := fmt.Sprintf("nothing of it is left on %d of %d servers", n-r.left.size(), n)
	for which := r.left; which != 0; {
		i := which.next()
		why[i] = errs[i]
	}
	if r.isFree(n) {
		return &driver.PartialReleaseError{Err: l.d.failure(what, why)}
	}
	for which := r.shut &^ r.left; which != 0; {
		why[which.next()] = errShut
	}
	return l.d.failure(what, why)
}

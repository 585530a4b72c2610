package redlockbackend

import (
	"errors"
	"fmt"

	"github.com/fencedlock/locker/driver"
)

// removalState is what a Release knows of the servers.
//
// The lock is free for others if no server may have a key of the acquisition. It is also free if others
// can get it on a majority. For that, a server counts only if it has no key of the acquisition, and would
// let somebody in. A server that has not granted the lease doesn't count. It may have refused the request,
// take no part, or have another holder, or its answer was lost. A server that has lost the lease doesn't
// count either: it may have another holder. Together with a server that still has the lease it keeps
// others out.
type removalState struct {
	remains  servers // something may exist there
	holdsKey servers // and it may be the lock's key. Else it is a place among those who wait, which keeps nobody out
	shut     servers // they may let nobody in, whatever exists there
	pending  servers // a request is still under way
	failed   servers // a removal has failed, and no Release has said so yet; only where the reasons are asked for
}

// isFree reports whether the lock is free for others, on n servers.
func (r *removalState) isFree(n int) bool {
	return r.holdsKey == 0 || n-(r.holdsKey|r.shut).size() >= majority(n)
}

// errShut is why a server on which nothing is left doesn't count.
var errShut = errors.New("nothing is left there, but it may let nobody in: it takes no part, has lost the lease, or has not confirmed it")

// removalState returns what is known now. If errs is given, it gets the reasons, and what has
// failed counts as said.
func (l *lock) removalState(errs *[mostServers]error) removalState {
	l.mu.Lock()
	defer l.mu.Unlock()
	var r removalState
	for _, a := range l.attempts {
		a.addTo(&r, errs)
	}
	if n := len(l.attempts); n > 0 { // the answers to the last attempt are the latest
		last := l.attempts[n-1]
		r.shut = last.keepingOut(last == l.winner)
	}
	return r
}

// keepingOut returns the servers that may let nobody in. If the attempt has won, these include servers
// with another holder: that holder doesn't have the lock, and its key is a remainder. If the attempt has
// failed, another holder may have the lock. Its release lets others in, so its servers aren't included.
func (a *attempt) keepingOut(won bool) servers {
	a.mu.Lock()
	defer a.mu.Unlock()
	if won {
		return a.shut | allOf(len(a.on))&^a.grants
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
	n := len(l.d.nodes)
	isFree := r.isFree(n)
	switch {
	case r.remains == 0:
		return nil
	case isFree && r.pending != 0 && r.failed == 0:
		return errTrailing
	}
	why := make(map[int]error)
	what := fmt.Sprintf("nothing of it is left on %d of %d servers", n-r.remains.size(), n)
	for which := r.remains; which != 0; {
		if i := which.next(); errs[i] != nil || !isFree || !r.pending.has(i) { // else its answer is still to come
			why[i] = errs[i]
		}
	}
	if isFree {
		return &driver.PartialReleaseError{Err: l.d.failure(what, why)}
	}
	for which := r.shut &^ r.remains; which != 0; {
		why[which.next()] = errShut
	}
	return l.d.failure(what, why)
}

package redlockbackend

import (
	"slices"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// What the answers of the servers prove is decided in this file, without a server or a clock:
// answers in, decision out.
//
// # Exclusion
//
// An owner that has the lock on a majority has the lock: two majorities share a server, and a
// server has one owner for a lock. The key on a server expires a TTL after the server got the
// request that set it or renewed it last, so not before a TTL after that request was sent. For each
// of a lease's servers it is known when the last request was sent that the server has acknowledged.
// Take the majority of them for which these moments are the latest: it holds until a TTL after the
// earliest of its moments. Until then every majority contains a server that has the lock. That
// earliest moment is the lease's base.
//
// A server of this majority may also have forgotten the lease, if it knows that it has forgotten
// something: it then takes no part for the longest TTL, which no lease's TTL exceeds. So it lets
// nobody in before the key would have expired that it has lost. It is no server of the lease any more:
// a majority of others has to renew.
//
// # Tokens
//
// A token is won when a majority of servers have raised their counter to it for this owner. Two
// winners share a server on which each raised the counter. The later of the two raised it above
// what the earlier had left there, so tokens are unique; and an owner that won before another began
// has the smaller token. No clock is used, and no expiry. This needs: a raise is counted once, for
// the attempt that asked; and counters are not lost.
//
// An owner that began before another won may win after it, with the smaller token, if it lost its keys
// in between. They have expired then, and it is too late for a lease. That rests on clocks, as exclusion
// does.
//
// A lease is renewed on a server only if its key exists there with the very token that the owner
// raised the counter to. If a larger token was won meanwhile, it was won on a majority, under keys
// of its owner: each of those servers had dropped the lease by then, and doesn't know it again. So
// a majority that renews proves that no larger token had been won.

// majority is how many of n servers must agree. Two such sets share a server. (Not ceil(n/2)+1, as
// some write it: that is 4 of 5.)
func majority(n int) int { return n/2 + 1 }

// decision is what the answers to a request of all servers come to.
type decision int

const (
	undecided decision = iota // more answers may change it
	won                       // a majority has raised the counter: the token is ours
	short                     // a majority has granted the lock, but for too few the token was large enough
	lockHeld                  // somebody has the lock, or may have it
	split                     // nobody can have it: several ask at the same time, and each has got some servers
	failed                    // too few servers took part
	abandoned                 // nobody waits for the answers any more
)

// answers are the replies to one attempt, by server. A reply that is still to come has no verdict
// and no error.
type answers []reply

// count returns how many servers gave one of these verdicts.
func (a answers) count(verdicts ...verdict) (n int) {
	for _, r := range a {
		if r.err == nil && slices.Contains(verdicts, r.verdict) {
			n++
		}
	}
	return n
}

// outstanding is how many servers have not answered yet.
func (a answers) outstanding() (n int) {
	for _, r := range a {
		if r.err == nil && r.verdict == "" {
			n++
		}
	}
	return n
}

// afterAcquire is what the answers to acquire come to.
func (a answers) afterAcquire() decision {
	quorum, coming := majority(len(a)), a.outstanding()
	if a.count(raised) >= quorum {
		return won
	}
	ours, others, most := a.count(raised, granted), a.count(held), a.mostHeld()
	switch {
	case ours >= quorum:
		switch {
		case !a.clocksTooFarApart():
			return short
		case coming > 0:
			return undecided
		}
		return failed
	case most >= quorum:
		return lockHeld
	case ours+coming >= quorum, ours+others < quorum && ours+others+coming >= quorum:
		return undecided
	case ours+others < quorum:
		return a.tooFew()
	case most+len(a)-ours-others >= quorum:
		if coming > 0 {
			return undecided
		}
		return lockHeld
	}
	return split
}

// mostHeld takes the other owner that most servers name as the holder, and returns how many name
// it.
func (a answers) mostHeld() (most int) {
	for _, r := range a {
		if r.err != nil || r.verdict != held {
			continue
		}
		n := 0
		for _, other := range a {
			if other.err == nil && other.verdict == held && other.owner == r.owner {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// afterRaise is what the answers to raise come to. A server that has not been asked counts as one
// that has failed.
func (a answers) afterRaise() decision {
	quorum, coming := majority(len(a)), a.outstanding()
	switch yes, no := a.count(raised), a.count(granted, gone); {
	case yes >= quorum:
		return won
	case yes+coming >= quorum, yes+no < quorum && yes+no+coming >= quorum:
		return undecided
	case yes+no >= quorum:
		return split // somebody else was faster
	}
	return a.tooFew()
}

// tooFew is the decision where too few servers can take part. As long as a majority may still answer, it
// isn't known whether that fails because servers have forgotten who has the lock, or don't answer: see
// mayRecover.
func (a answers) tooFew() decision {
	quorum, known := majority(len(a)), a.count(raised, granted, held, waits)
	if known < quorum && known+a.outstanding() >= quorum {
		return undecided
	}
	return failed
}

// mayRecover reports whether a majority has answered and could agree, but some have forgotten who has
// the lock: somebody may have it.
func (a answers) mayRecover() bool {
	return a.count(raised, granted, held, waits) >= majority(len(a)) && !a.clocksTooFarApart()
}

// clocksTooFarApart reports whether a majority has granted the lock, but could never agree to a
// token: a server whose clock was far ahead has a counter that the others can't be raised to, and
// too few are left without it.
func (a answers) clocksTooFarApart() bool {
	_, most := a.secondPhaseToken()
	return most < majority(len(a)) && a.count(raised, granted) >= majority(len(a))
}

// secondPhaseToken is the token of the second phase, and how many servers can be raised to it. It
// is one more than a server's counter, or that server's clock if that is later, and is chosen so
// that most servers can be raised to it. (It isn't simply larger than all counters: see
// clocksTooFarApart.)
func (a answers) secondPhaseToken() (best locker.Token, most int) {
	for _, r := range a {
		if !r.isOurs() {
			continue
		}
		token, n := max(r.counter+1, r.limit-maxAhead), 0
		for _, other := range a {
			if other.isOurs() && other.counter < token && (other.verdict == raised || token <= other.limit) {
				n++
			}
		}
		if n > most || n == most && token < best {
			best, most = token, n
		}
	}
	return best, most
}

// maxAhead is how far beyond its clock a server's counter can be raised, in microseconds, as in
// token.lua.
const maxAhead = 60_000_000

// isOurs reports whether the server has granted the lock.
func (r reply) isOurs() bool { return r.err == nil && (r.verdict == raised || r.verdict == granted) }

// baseOf returns the base of a lease, from the moments at which the last requests were sent that
// its servers have acknowledged; false if they are no majority. It sorts acked.
func baseOf(acked []driver.Instant, quorum int) (driver.Instant, bool) {
	if len(acked) < quorum {
		return 0, false
	}
	slices.Sort(acked)
	return acked[len(acked)-quorum], true
}

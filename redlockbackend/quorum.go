package redlockbackend

import (
	"slices"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// What the answers of the servers prove is decided in this file, without a server or a clock: answers in, verdict out.
//
// # Exclusion
//
// Who has the lock on a majority has it: two majorities share a server, and a server has one owner for a lock. The key on
// a server expires a TTL after the server got the request that set it or renewed it last, so not before a TTL after that
// request was sent. Of a lease's servers, each with the stamp of the last acknowledged request, the newest quorum
// holds until a TTL after the oldest stamp among them: until then every majority meets a server that has the lock. That
// stamp is the lease's base.
//
// # Tokens
//
// A token is won when a majority of servers have raised their counter to it for this owner. Two winners share a server on
// which each raised the counter. The later of the two raised it above what the earlier had left there, so tokens are
// unique; and who won before another began has the smaller one. No clock is used, and no expiry. It needs that a raise
// is counted once, for the attempt that asked, and that counters are not lost.
//
// A lease is renewed on a server only if its key stands there with the very token that the owner raised the counter to.
// Were a larger token won meanwhile, it was so on a majority, under keys of its owner: each of its servers had let go of
// the lease by then, and doesn't know it again. So a majority that renews proves that no larger token had been won.

// majority is how many of n servers must agree. Two such sets share a server. (Not ceil(n/2)+1, as some write it: that is
// 4 of 5.)
func majority(n int) int { return n/2 + 1 }

// decision is what the answers to a request of all servers come to.
type decision int

const (
	undecided decision = iota // more answers may change it
	won                       // a majority has raised the counter: the token is ours
	short                     // a majority has granted the lock, but for too few the token was large enough
	taken                     // somebody has the lock, or may have it
	split                     // nobody can have it: several ask at the same time, and each has got some servers
	failed                    // too few servers took part
)

// tally is the answers to one attempt, by server; those that are still to come have no verdict and no error.
type tally []reply

// count returns how many servers gave an answer like that.
func (t tally) count(like ...verdict) (n int) {
	for _, r := range t {
		if r.err == nil && slices.Contains(like, r.verdict) {
			n++
		}
	}
	return n
}

// outstanding is how many have not answered yet.
func (t tally) outstanding() (n int) {
	for _, r := range t {
		if r.err == nil && r.verdict == "" {
			n++
		}
	}
	return n
}

// first is what the answers to acquire come to.
func (t tally) first() decision {
	quorum, coming := majority(len(t)), t.outstanding()
	ours, others := t.count(raised, granted), t.count(held)
	most := t.mostHeld()
	switch {
	case t.count(raised) >= quorum:
		return won
	case ours >= quorum:
		switch {
		case !t.apart():
			return short
		case coming > 0:
			return undecided
		}
		return failed
	case most >= quorum:
		return taken
	case ours+coming >= quorum, ours+others < quorum && ours+others+coming >= quorum:
		return undecided
	case ours+others < quorum:
		return failed
	case most+len(t)-ours-others >= quorum:
		if coming > 0 {
			return undecided
		}
		return taken
	}
	return split
}

// mostHeld is how many servers say of one and the same other owner that it has the lock.
func (t tally) mostHeld() (most int) {
	count := make(map[string]int)
	for _, r := range t {
		if r.err == nil && r.verdict == held {
			count[r.owner]++
			most = max(most, count[r.owner])
		}
	}
	return most
}

// second is what the answers to raise come to. A server that has not been asked counts as one that has failed.
func (t tally) second() decision {
	quorum, coming := majority(len(t)), t.outstanding()
	switch yes, no := t.count(raised), t.count(granted, gone); {
	case yes >= quorum:
		return won
	case yes+coming >= quorum, yes+no < quorum && yes+no+coming >= quorum:
		return undecided
	case yes+no >= quorum:
		return split // somebody else was faster
	}
	return failed
}

// mayRecover reports whether a majority answers and could agree, but some have forgotten who has the lock: somebody may have it.
// Those that are still to answer count as well: a decision may be made before they do.
func (t tally) mayRecover() bool {
	return t.count(raised, granted, held, waits)+t.outstanding() >= majority(len(t)) && !t.apart()
}

// apart reports whether a majority has granted the lock, but could never agree to a token: one whose clock was far ahead has
// a counter that the others can't be raised to, and too few are left without it.
func (t tally) apart() bool {
	_, most := t.larger()
	return most < majority(len(t)) && t.count(raised, granted) >= majority(len(t))
}

// larger is the token of the second phase, and how many servers can be raised to it. It is one more than a counter, but not
// behind that server's clock, and such that these are most. (Not simply beyond all counters, see apart.)
func (t tally) larger() (best locker.Token, most int) {
	for _, r := range t {
		if !r.ours() {
			continue
		}
		token, n := max(r.counter+1, r.limit-maxAhead), 0
		for _, other := range t {
			if other.ours() && other.counter < token && (other.verdict == raised || token <= other.limit) {
				n++
			}
		}
		if n > most || n == most && token < best {
			best, most = token, n
		}
	}
	return best, most
}

// maxAhead is how far beyond its clock a server's counter can be raised, in microseconds, as in token.lua.
const maxAhead = 60_000_000

// ours reports whether the server has granted the lock.
func (r reply) ours() bool { return r.err == nil && (r.verdict == raised || r.verdict == granted) }

// backing is what a lease hangs on.
type backing struct {
	servers int              // how many there are
	stands  servers          // those that have raised the counter for it and have not let go since
	stamps  []driver.Instant // by server: of the last request that it has acknowledged
}

// confirm notes an acknowledged request that was sent at stamp. Who has let go never comes back.
func (b *backing) confirm(server int, stamp driver.Instant) {
	if b.stands.has(server) {
		b.stamps[server] = max(b.stamps[server], stamp)
	}
}

// base returns the oldest stamp among the newest of a majority; false if no majority has the lease.
func (b *backing) base() (driver.Instant, bool) {
	stamps := make([]driver.Instant, 0, mostServers)
	for which := b.stands; which != 0; {
		stamps = append(stamps, b.stamps[which.next()])
	}
	quorum := majority(b.servers)
	if len(stamps) < quorum {
		return 0, false
	}
	slices.Sort(stamps)
	return stamps[len(stamps)-quorum], true
}

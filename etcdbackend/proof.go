package etcdbackend

import (
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// What proves how long an etcd lease will live. A key exists as long as the etcd lease that it is
// attached to, so this is what a holder's deadline rests on: Base, from which the TTL counts. The
// functions are pure; the rest of the package passes answers to them and asks nothing else.
//
// The usual rule, "the last acknowledged keepalive + TTL", is wrong when a leader freezes, starves
// or is cut off. It goes on acknowledging until it notices, and what it acknowledges means nothing
// to its successor. What is worse, when a frozen leader wakes it may find leases expired by its own
// clock, and its request to revoke them is forwarded to the new leader, which executes it, although
// these leases were renewed there a moment ago.
//
// # What is known of etcd
//
//  1. The RaftTerm in a response's header is the term of the entry that the answering member
//     applied last. So a term in a header has had a leader that the cluster agreed on, and nothing
//     that is proposed later is committed in an older term. The header of a response to a write has
//     at least the term in which the write was committed, because each term begins with an entry of
//     the leader's own.
//  2. A linearizable answer (a write, or a read that is confirmed by a round of heartbeats) with
//     term T in its header, to a request that was sent at t, means that no leader of a later term
//     was elected before t: the majority that confirmed it would have refused an older term.
//  3. Expiry lives in the memory of a leader. A new leader gives each lease its whole TTL again,
//     from when it begins.
//  4. A leader revokes a lease only if it has expired by the leader's own clock, which counts from
//     the last renewal that this leader has executed itself. But its revocation may be executed
//     much later, in a later term.
//  5. A member that was a leader steps down before it applies anything of a later term.
//
// # The rule
//
// Let an etcd lease be granted in term T: the Grant was sent when T had been seen in a header, and
// its own header says T (by 1 it was committed in T exactly). Then no leader of an older term can
// have had it and expired it (5).
//
// Let a keepalive be sent at s, and answered with T in its header. The member that answered had
// applied something of T before it passed the keepalive on, so a leader of term T or later executed
// it, after s. Let a linearizable request be sent after that answer was heard, and be answered with
// T as well. Then no later leader had been elected (2) when the keepalive was executed: it was the
// leader of T that executed it. So
//   - the leader of T doesn't find the lease expired before s + TTL, whenever it freezes and wakes;
//   - every later leader was elected after s, and counts a whole TTL from later than that (3).
//
// Nobody else can revoke it. Hence Base = s. For the Grant itself the same holds, with its own send
// time: it is a write that was committed in T.
//
// It matters that the second request is sent after the first was answered. If it were sent in
// parallel, the keepalive might be held up at a leader that freezes just then, and be executed by
// its successor; the old leader wouldn't know of it, and on waking would revoke the lease by the
// renewal before.
//
// In a term that is later than T none of this holds any more, and no keepalive extends the Base.
// The driver gets a new etcd lease that is granted in the new term, and moves the keys to it, which
// keeps their create revisions, and so the tokens and the order; an old leader's revocation meets
// an etcd lease without keys. A Base that was proved before stays true.
//
// # What is left
//
// Clocks of members and client must run at nearly the same speed; the engine subtracts an
// allowance. A lease of more than 300 s is checkpointed, and 3 doesn't hold for it: such a TTL is
// refused. A member that has just been brought up to date by a snapshot shows, until the next
// entry, the term that it had before (an exception to 1): if the old leader has been frozen for
// longer than the TTL and wakes at that moment, the rule may be wrong by up to a third of the TTL.
//
// A member stores the index of the entry that it has applied, and then that entry's term. A reader
// that comes between the two shows the older term (another exception to 1, of nanoseconds).
//
// A leader that renews a lease first looks whether it has expired, and then refreshes it. If the
// leader is stopped between the two for longer than what was left of the lease, and is still the
// leader when it goes on, it acknowledges the keepalive, and revokes the lease all the same,
// because the revocation is due by then: Base = s is wrong by up to the TTL less the pause. When
// renewals succeed, two thirds of the TTL are left, so this needs a pause of more than two thirds
// which causes no election. With a TTL of five election timeouts or more, a pause of that length
// normally ends the leadership. In a cluster of one member, which holds no elections, such a pause at
// exactly this place is improbable, and nothing else prevents it.

// confirmation is a linearizable request that was answered.
type confirmation struct {
	sent etcdconn.Seq // before it was sent
	term uint64       // in the header of the answer
}

// grantedIn reports whether a Grant whose answer has term was committed in term exactly. known is a
// term that an answer had before the Grant was sent.
func grantedIn(known, term uint64) bool { return term != 0 && known == term }

// termOrder is what the term of an answer means to an etcd lease that was granted in another term.
type termOrder int

const (
	earlierTerm termOrder = iota // the member has missed something: its answer says nothing
	sameTerm                     // the term goes on
	laterTerm                    // there has been a later leader: nothing extends the etcd lease provably
)

func compareTerms(granted, answered uint64) termOrder {
	switch {
	case answered < granted:
		return earlierTerm
	case answered > granted:
		return laterTerm
	}
	return sameTerm
}

// proved returns the Base that a keepalive and a linearizable answer prove for an etcd lease that
// was granted in term.
func proved(term uint64, k etcdconn.Keepalive, c confirmation) (driver.Instant, bool) {
	if term == 0 || k.Term != term || c.term != term || k.Heard == 0 || c.sent <= k.Heard {
		return 0, false
	}
	return k.Sent, true
}

package locker

import "time"

// Guarantees is what a locker promises, as data. The conformance suite (package conformance) holds backends to it on
// real servers. What no test can show, such as Cost and Because, is listed in CONTRIBUTING.md, "What the suite can't
// find".
//
// The zero value of each field says that nothing is promised; a zero RoundTrips says that no
// network is involved. The larger of two values of a field promises more. RoundTrips and Cost are
// prices and no promises: the larger value is the higher price.
type Guarantees struct {
	Backend    string     // the backend's name
	Scope      Scope      // who is kept apart
	Tolerance  Tolerance  // which failures of the service are survived
	Exclusion  Exclusion  // what "only one holder" depends on
	Fencing    Fencing    // how long tokens keep increasing
	Clocks     Clocks     // which clocks exclusion assumes to be sane
	Order      Order      // in which order waiters get the lock
	Waiting    Waiting    // how a waiter learns of its turn
	Expiry     Expiry     // what ends the lease of a dead or silent holder
	Revocation Revocation // how a holder learns that the service took its lock away
	Restart    Restart    // what a restart of the service leaves
	Inspection Inspection // what can be asked about a lock: [Inspect] and [List]
	Break      Breaking   // whether [Break] works, and how its victim gets to know it
	RoundTrips int        // round trips of an acquisition without contention; 0: no network is involved
	Cost       Cost       // what it takes to run the service

	// Because says why this locker promises less than its backend usually does, and what helps. It is empty where it
	// promises as much, and where a parameter or the kind of service says so (a Redis Cluster, labels=false).
	Because string
}

// Scope is who is kept apart by a lock.
type Scope int

const (
	ScopeProcess Scope = iota + 1 // one process
	ScopeMachine                  // one machine
	ScopeNetwork                  // all processes that reach the service
)

// Tolerance is which failures of the service are survived.
type Tolerance int

const (
	ToleranceNone     Tolerance = iota + 1 // none: one server or machine
	ToleranceFailover                      // failover to a replica, which may have missed the latest writes
	ToleranceMinority                      // the loss of a minority of the servers
)

// Exclusion is what mutual exclusion depends on. No value excludes a holder that was paused; see [Fencing].
type Exclusion int

const (
	ExclusionSingleNode Exclusion = iota + 1 // the memory of one node
	ExclusionMajority                        // a majority of independent nodes, and their clocks
	ExclusionDatabase                        // the lock table of one database
	ExclusionKernel                          // the kernel of one machine
	ExclusionConsensus                       // consensus among the servers
)

// Fencing is how long tokens keep increasing.
type Fencing int

const (
	FencingNone          Fencing = iota + 1 // tokens can't fence: they are unique and above 0, but in no order
	FencingUntilDataLoss                    // until the service loses data while its clock has stepped back or is behind
	FencingDurable                          // over restarts and failovers, without any clock; not when data is lost, or set back as from a backup
)

// Clocks is which clocks mutual exclusion assumes to be sane. That clocks run at nearly the same speed is assumed
// wherever a lease ends by time.
type Clocks int

const (
	ClocksAll    Clocks = iota + 1 // the clocks of all servers and of the client: while one is wrong, nothing is promised
	ClocksServer                   // the server's clock doesn't jump
	ClocksSpeed                    // only that clocks run at nearly the same speed
	ClocksNone                     // none at all
)

// Order is the order in which waiters get the lock. Waiters of one Locker are always served in the order in which
// they came; this is about waiters of different Lockers.
type Order int

const (
	OrderNone  Order = iota + 1 // any
	OrderQueue                  // the service's own queue: in order of arrival, with rare exceptions
	OrderFIFO                   // first come, first served
)

// Waiting is how a waiter learns of its turn.
type Waiting int

const (
	WaitingPolled  Waiting = iota + 1 // it asks again and again
	WaitingNotify                     // it is notified that the lock may be free, together with all other waiters
	WaitingHandOff                    // a release wakes one waiter; more than one only where servers differ about the next
)

// Revocation is how a holder learns that the service took its lock away: an operator deleted the key, or revoked the
// session.
type Revocation int

const (
	RevocationUnseen  Revocation = iota + 1 // it doesn't
	RevocationRenewal                       // at the next renewal
	RevocationAtOnce                        // at once
)

// Restart is what a restart of the service leaves.
type Restart int

const (
	RestartNothing     Restart = iota + 1 // nothing; tokens go on increasing by the clock
	RestartAsPersisted                    // what its persistence had written: Redis without persistence, with RDB or AOF
	RestartTokens                         // the tokens; leases end
	RestartLeases                         // leases and tokens
)

// Inspection is what [Inspect] and [List] tell of a lock.
type Inspection int

const (
	InspectionNone   Inspection = iota + 1 // nothing: they return [ErrNoInspector]
	InspectionHolder                       // who holds it
	InspectionQueue                        // who holds it, and who waits for it on the service, in the service's order
)

// Breaking is how a holder that runs and is connected learns that [Break] takes its lock away, by default. With
// [Breach.AtOnce] it learns it as [Revocation] says.
type Breaking int

const (
	BreakNone          Breaking = iota + 1 // not at all: Break returns [ErrNoBreaker]
	BreakSeenAtRenewal                     // at the next renewal, a third of the TTL after the last at the latest
	BreakSeenAtOnce                        // at once, within a second
)

// Cost is what it takes to run the service.
type Cost int

const (
	CostNone   Cost = iota + 1 // nothing to run
	CostLow                    // one well-known server, or one that runs anyway
	CostMedium                 // several servers
	CostHigh                   // a cluster that needs to be understood
)

// Expiry is what ends the lease of a holder that is dead or silent.
//
// TTL + Slack is counted from the last message of the holder that the service received. TTL is the one that was asked
// for, or a longer one to which the service rounds it, if the lease's Deadline shows that. Slack has what the lease
// doesn't show: for how much longer the service keeps the lock, and the longest pause of a waiter that polls.
//
// It holds as long as the service keeps its leader, or if the leader and the holder fail at the same time. A cluster that elects another
// leader later (etcd, ZooKeeper) counts from the beginning again: each such change gives the dead holder's lock as much
// time again as it had at first. The documentation of each backend says how much.
type Expiry struct {
	By    ExpiryBy
	TTL   bool          // a silent holder loses the lock after the TTL, too; otherwise only a dead one
	Slack time.Duration // how much later than the TTL the service may let somebody else in, without a later change of its leader
}

// ExpiryBy is what a lease is attached to, and ends with. A larger value ends it in more cases, and not always sooner.
// Each value adds a case to those before it:
//
//   - [ExpiryProcess]: the process ends;
//   - [ExpiryConnection]: its machine loses the connection;
//   - [ExpirySession]: its whole session is silent;
//   - [ExpiryKey]: this lock alone isn't renewed.
type ExpiryBy int

const (
	ExpiryProcess    ExpiryBy = iota + 1 // the holder's process: freed at once when it ends
	ExpiryConnection                     // a connection: freed at once when it is closed
	ExpirySession                        // a session that the service ends after a silence
	ExpiryKey                            // a key of the lock's own with a time to live
)

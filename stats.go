package locker

import "time"

// Stats is what a [Locker] is doing, and what it has done since it was opened. The counts are exact, whether or not an
// [Observer] is attached. A call of Acquire that begins nothing is not counted, and has no event: one whose name or
// options are invalid, that asks for a feature that the backend doesn't have, whose context has ended before, or whose
// caller itself has the lock ([ErrHeldByCaller]). A value that only the backend can judge, such as a TTL below its
// minimum, is counted as [OutcomeInvalid], and has an event.
//
// A call of [AcquirePermit] that waits is one call in Waiting and OldestWaiting, also when it is the first in the line
// and has the line's lock. The other counts have each acquisition that it makes: of the line, and of the slots.
type Stats struct {
	Held     int // leases
	Waiting  int // calls of Acquire under way
	Kept     int // leases that have been released, and whose minimum hold isn't over ([WithMinHold])
	Removing int // leases and acquisitions that are over, and whose removal the service hasn't confirmed yet

	OldestHeld, OldestWaiting, OldestKept, OldestRemoving time.Duration // for how long already; 0: there is none

	Granted   uint64            // leases
	Contended uint64            // of these, the ones that had to wait for somebody else
	Refused   map[string]uint64 // calls of Acquire that failed, by OutcomeOf

	Renewed        uint64            // renewals of leases that were confirmed
	RenewalsFailed uint64            // renewals of leases that failed
	Lost           map[string]uint64 // leases, by LossOf
	Released       uint64            // leases whose removal the service has confirmed

	Requeued       uint64 // acquisitions that were replaced while their caller waited
	Abandoned      uint64 // grants that came after the caller had given up
	RemovalsFailed uint64 // tries to remove something that weren't confirmed; not those to which answers are still to come
	EventsDropped  uint64 // events that no Observer got, because too many waited
}

// StatsOf returns the statistics of l. ok is false when l is not [Observable]. It takes about a
// microsecond, and a quarter of a millisecond with 10,000 leases. A decorator and what is below it are one locker here.
func StatsOf(l Locker) (s Stats, ok bool) {
	x, ok := AsLocker[Observable](l)
	if !ok {
		return Stats{}, false
	}
	return x.Stats()
}

// LeaseInfo is a lease, or a call of Acquire that waits for one, or what either has left on the service.
type LeaseInfo struct {
	ID       uint64    // as in an Event
	Name     string    // the lock's whole name, with all prefixes
	Slot     int       // of a permit, from 1 on, or LineSlot; 0: it is of the lock
	Token    Token     // 0: there was no grant yet
	Holder   string    // what it says of itself: see WithHolder; empty if nothing is said
	State    string    // StateWaiting, StateHeld, StateKept or StateRemoving
	Since    time.Time // since when it is in that state
	Deadline time.Time // held: when it is lost unless it is renewed before; kept: when it is given back; zero: neither, or it never ends by time
	Err      error     // of the last renewal or removal; nil: that succeeded, or there was none
}

// The values of State in a [LeaseInfo]. Later versions may add words, so a switch needs a default.
const (
	StateWaiting  = "waiting"  // a call of Acquire is under way; it has a Token if it is the first in the line for permits
	StateHeld     = "held"     // it is a lease
	StateKept     = "kept"     // the lease was released, and its minimum hold isn't over: see WithMinHold
	StateRemoving = "removing" // it is over, and the service hasn't confirmed the removal yet
)

// Leases lists what l holds, waits for and removes, in no order. ok is false when l is not [Observable]. What a
// program has forgotten to release is among the leases; package observe finds it.
func Leases(l Locker) (list []LeaseInfo, ok bool) {
	x, ok := AsLocker[Observable](l)
	if !ok {
		return nil, false
	}
	return x.Leases()
}

package locker

import (
	"fmt"
	"strings"
	"time"
)

// Event is something that happened to a call of Acquire, to the lease that the call returned, or to a [Locker].
// A field whose comment names kinds is zero in all other kinds. A time is when the engine noticed the event.
//
// Took is the time since Acquire was called (Granted, Refused), since the renewal was asked for (Renewed,
// RenewalFailed), or since the lease, its minimum hold or the acquisition ended (Released, Removed).
type Event struct {
	Kind    EventKind
	Time    time.Time // when it happened, by the wall clock
	Backend string    // "redis", "etcd", …
	Name    string    // the lock's whole name, with all prefixes; empty for EventClosed
	Slot    int       // of a permit, from 1 on, or LineSlot: see AcquirePermit; 0: it is of the lock
	ID      uint64    // of the call of Acquire: the same in all events of a call and of its lease, unique in a Locker; from 1
	Holder  string    // what the call says of itself: see WithHolder; empty for EventClosed, and if nothing is said

	Token     Token         // Granted, Abandoned, and each event of a lease
	TTL       time.Duration // Granted, and each event of a lease: the TTL in force; 0: it never ends by time
	Took      time.Duration // Granted, Refused, Renewed, RenewalFailed, Released, Removed: see above
	Held      time.Duration // Lost, Released: from the grant to the end, without what WithMinHold adds
	Left      time.Duration // Renewed, RenewalFailed: until the deadline, as it was before the answer; 0 without one
	Ahead     int           // Waiting: how many calls of this Locker for this lock came before
	Tries     int           // RenewalFailed, Removing: how many have failed in a row, with this one
	Contended bool          // Granted: the call had to wait for somebody else
	Cause     error         // Refused, Requeued, RenewalFailed, Lost, Removing: why; Closed: what Close returns
}

// EventKind is a set of kinds of events. An [Event] has one. Later versions may add kinds, so a switch needs a default.
type EventKind uint32

// The kinds. A call of Acquire has EventWaiting at most once, and then EventGranted or EventRefused. A lease has any
// number of EventRenewed and EventRenewalFailed, and ends with EventLost or EventReleased. If Close gives up the removal
// of a lease that was released, neither comes: EventClosed is the end of that lease, too. A lease that is kept
// ([WithMinHold]) is renewed, too; if the service says that it has lost the lock, that is EventRenewalFailed.
const (
	EventWaiting       EventKind = 1 << iota // the service says that the lock is held, or earlier calls of this Locker wait
	EventGranted                             // Acquire returns a lease
	EventRefused                             // Acquire returns an error; OutcomeOf(Cause) is its class. Stats says which calls have no event
	EventRequeued                            // the acquisition was lost before its grant, or the grant was too old; the wait goes on with a new one
	EventAbandoned                           // the lock was granted after the caller had given up, or Close had begun; EventRefused comes just before or after
	EventRenewed                             // the service has confirmed the lease, in the background or by the holder's Renew
	EventRenewalFailed                       // a renewal has failed; the lease may still be held
	EventLost                                // the lease was lost; LossOf(Cause) is the class
	EventReleased                            // the holder, or Close, has ended the lease, and the service has confirmed that the lock is free
	EventRemoving                            // a try to remove what a lease or an acquisition left isn't confirmed; the next one follows
	EventRemoved                             // after EventRemoving: the removal is confirmed; not sent if EventReleased says so
	EventClosed                              // Close is done. Later events come from later calls of Acquire, or from calls of the driver that had not returned
)

var eventNames = [...]string{
	"waiting", "granted", "refused", "requeued", "abandoned", "renewed", "renewal failed", "lost", "released", "removing",
	"removed", "closed",
}

// String names the kinds, as in "lost" or "granted, released".
func (k EventKind) String() string {
	var names []string
	for i, name := range eventNames {
		if bit := EventKind(1) << i; k&bit != 0 {
			names = append(names, name)
			k &^= bit
		}
	}
	if k != 0 {
		names = append(names, fmt.Sprintf("kinds %#x", uint32(k)))
	}
	return strings.Join(names, ", ")
}

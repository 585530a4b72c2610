package leader

import "fmt"

// Event is something that happened to a candidate. A field whose comment names kinds is zero in all
// other kinds.
type Event struct {
	Kind EventKind
	Term Term  // Elected, Overstaying, Ended
	Err  error // AcquisitionFailed: why; Ended: the lease's Err if the lease was lost, and else nil
}

// EventKind says what happened. Print it with String, because its number may change. An [Observer]
// ignores kinds that it doesn't know, because there may be more later.
type EventKind int

// The kinds. A candidate has EventStanding once before each term. Any number of
// EventAcquisitionFailed follow, and then EventElected if it is elected. A term ends with EventEnded;
// EventOverstaying may come before that, and never after it.
const (
	EventStanding          EventKind = iota + 1 // the candidate waits to be elected
	EventAcquisitionFailed                      // the lock could not be acquired; the candidate tries again, unless no wait can help
	EventElected                                // a term begins
	EventOverstaying                            // the function that leads hasn't returned in time after the end of its context; see WithOverstay
	EventEnded                                  // a term is over: the function that leads has returned, and the lock is given back or lost
)

var eventNames = [...]string{"standing", "acquisition failed", "elected", "overstaying", "ended"}

// String names the kind, as in "elected".
func (k EventKind) String() string {
	if k < 1 || int(k) > len(eventNames) {
		return fmt.Sprintf("kind %d", int(k))
	}
	return eventNames[k-1]
}

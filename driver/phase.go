package driver

// phase is where an acquisition stands. It only moves forward, but for a grant, which takes a queued one back to
// asking until it is known to be fresh.
type phase int

const (
	prepared phase = iota // nothing was sent
	asking                // a request is under way, or the next one is being waited for
	queued                // it has its place in the service's queue; its moment is the next renewal
	holding               // it is a lease; its moment is the next renewal or the deadline
	removing              // it is over; its moment is the next try to remove what it left
	gone                  // the removal is confirmed
)

package driver

import "time"

const Unreadable time.Duration = unreadable

var Ahead = ahead

// SetBootOffset makes the clock of suspensions one that reads so at the start. undo takes that back.
func SetBootOffset(d time.Duration) (undo func()) {
	before := bootOffset
	bootOffset = d
	return func() { bootOffset = before }
}

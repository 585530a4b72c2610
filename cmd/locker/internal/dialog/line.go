package dialog

import (
	"encoding/json"
	"time"

	"github.com/fencedlock/locker"
)

// line is what a program reads: one JSON object on a line. Names and meanings don't change. What
// isn't known is left out.
type line struct {
	Event string `json:"event"`
	Name  string `json:"name,omitempty"`
	Token string `json:"token,omitempty"` // a text: the numbers of JSON don't hold all tokens exactly
	deadline
	Cause string `json:"cause,omitempty"`
	Error string `json:"error,omitempty"`
}

// The events.
const (
	eventWaiting  = "waiting"  // the lock is not granted yet: the answer to a check
	eventGranted  = "granted"  // once, before everything that is about the lease
	eventHeld     = "held"     // the answer to a check
	eventRenewed  = "renewed"  // without having been asked for
	eventError    = "error"    // a request is invalid
	eventLost     = "lost"     // the last line
	eventReleased = "released" // the last line
)

// deadline is a moment, because a line may lie in a pipe for a while. Both are never later than the
// lease's deadline.
type deadline struct {
	Wall     string `json:"deadline,omitempty"`             // by the wall clock, in UTC
	Boottime int64  `json:"deadline_boottime_ns,omitempty"` // by CLOCK_BOOTTIME of this machine
}

// wallFormat is RFC 3339 with milliseconds.
const wallFormat = "2006-01-02T15:04:05.000Z07:00"

// deadlineOf is the lease's deadline; empty if it never ends by time. The clocks are read before
// the deadline: if this process is stopped in between, the moments are too early.
func deadlineOf(lease locker.Lease) deadline {
	wall, boot := time.Now(), boottime()
	at := lease.Deadline()
	if at.IsZero() {
		return deadline{}
	}
	left := time.Until(at)
	d := deadline{Wall: wall.Add(left).UTC().Truncate(time.Millisecond).Format(wallFormat)}
	if boot != 0 {
		d.Boottime = boot + int64(left)
	}
	return d
}

// text is the line with its end.
func (l line) text() []byte {
	text, _ := json.Marshal(l) // it has texts and a number, which are always JSON
	return append(text, '\n')
}

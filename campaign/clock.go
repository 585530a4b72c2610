package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// moment is a time on CLOCK_MONOTONIC, in nanoseconds. All processes of one machine share this
// clock, so moments of different contenders can be compared. 0: it never came.
type moment int64

func now() moment {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the clock exists on every system that this program is built for
	}
	return moment(ts.Nano())
}

// momentOf converts a time of this process.
func momentOf(t time.Time) moment {
	if t.IsZero() {
		return 0
	}
	return now() + moment(time.Until(t))
}

func (m moment) sub(earlier moment) time.Duration { return time.Duration(m - earlier) }

package redisconn

import "time"

// clockDifference is how far another machine's clock may be ahead of ours.
const clockDifference = time.Minute

// firstMoment is before any program that could have written a time in µs.
var firstMoment = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Moment is a time in µs that another machine has written. It is zero if that can't have been the
// time, because something else has been written there, or its clock was wrong.
func Moment(micros int64) time.Time {
	at := time.UnixMicro(micros)
	if at.Before(firstMoment) || at.After(time.Now().Add(clockDifference)) {
		return time.Time{}
	}
	return at
}

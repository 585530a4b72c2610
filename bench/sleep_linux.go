package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// exactSleeps makes exactSleep exact on this thread: the system may make a thread wait 50 µs longer
// by default.
func exactSleeps() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// exactSleep waits in the system. A signal ends it early.
func exactSleep(d time.Duration) {
	until := time.Now().Add(d)
	for ; d > 0; d = time.Until(until) {
		t := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&t, nil)
	}
}

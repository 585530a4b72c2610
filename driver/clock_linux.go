package driver

import (
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7

// bootOffset is the largest of a few readings: one that was interrupted is too small, and what passed meanwhile would
// look like a suspension ever after.
var bootOffset = max(boottimeAhead(), boottimeAhead(), boottimeAhead(), boottimeAhead(), boottimeAhead())

// systemSuspended is how far CLOCK_BOOTTIME, which counts suspended time, has moved ahead of Go's clock, which is
// CLOCK_MONOTONIC. In a bubble of testing/synctest that clock is not the system's, and reads far less than it did.
func systemSuspended() time.Duration {
	if time.Since(epoch) < 0 {
		return 0
	}
	return boottimeAhead() - bootOffset
}

// boottimeAhead reads CLOCK_BOOTTIME first: what passes between the two readings then makes the result smaller, never
// larger than the truth. Go reads its own clock without a call of the system, which is most of what this costs.
func boottimeAhead() time.Duration {
	boot := readClock(clockBoottime)
	return boot - time.Since(epoch)
}

func readClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("driver: clock_gettime: " + errno.Error()) // both clocks exist since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}

package driver

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// bootOffset is the largest of a few readings: one that was interrupted is too small, and what passed meanwhile would
// look like a suspension ever after.
var bootOffset = max(boottimeAhead(), boottimeAhead(), boottimeAhead(), boottimeAhead(), boottimeAhead())

// systemSuspended is how far CLOCK_BOOTTIME, which counts suspended time, has moved ahead of CLOCK_MONOTONIC.
func systemSuspended() time.Duration { return boottimeAhead() - bootOffset }

// boottimeAhead reads CLOCK_BOOTTIME first: what passes between the two readings then makes the result smaller, never
// larger than the truth.
func boottimeAhead() time.Duration {
	boot := readClock(clockBoottime)
	return boot - readClock(clockMonotonic)
}

func readClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("driver: clock_gettime: " + errno.Error()) // both clocks exist since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}

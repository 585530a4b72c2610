package driver

import (
	"math"
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7

// bootOffset is the largest of a few readings: one that was interrupted is too small, and what
// passed meanwhile would look like a suspension ever after.
var bootOffset = max(ahead(clockBoottime), ahead(clockBoottime), ahead(clockBoottime), ahead(clockBoottime), ahead(clockBoottime))

// unreadable is how far a clock is ahead that can't be read.
const unreadable = math.MinInt64

// systemSuspended is how far CLOCK_BOOTTIME, which counts suspended time, has moved ahead of Go's
// clock, which is CLOCK_MONOTONIC. In a bubble of testing/synctest that clock is not the system's,
// and reads far less than it did.
//
// It is 0 where CLOCK_BOOTTIME can't be read: Linux has it since 2.6.39, but a sandbox may forbid
// the system call. The engine doesn't notice a suspension of the machine there.
func systemSuspended() time.Duration {
	if time.Since(epoch) < 0 || bootOffset == unreadable {
		return 0
	}
	return max(ahead(clockBoottime), bootOffset) - bootOffset
}

// ahead reads the clock called id first: what passes between the two readings then makes the result
// smaller, never larger than the truth. Go reads its own clock without a call of the system, which
// is most of what this costs.
func ahead(id uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return unreadable
	}
	return time.Duration(ts.Nano()) - time.Since(epoch)
}

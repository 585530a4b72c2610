package driver

import (
	"math"
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7

// bootOffset is the largest of a few readings. A reading that was interrupted is too small, and the
// interruption would look like a suspension from then on.
var bootOffset = max(
	ahead(clockBoottime),
	ahead(clockBoottime),
	ahead(clockBoottime),
	ahead(clockBoottime),
	ahead(clockBoottime),
)

// unreadable is the result of ahead for a clock that can't be read.
const unreadable = math.MinInt64

// systemSuspended is how far CLOCK_BOOTTIME, which counts suspended time, has moved ahead of Go's
// clock, which is CLOCK_MONOTONIC. In a bubble of testing/synctest Go's clock is not the system's,
// and reads far less than it did; then it is 0.
//
// It is 0 as well where CLOCK_BOOTTIME can't be read: Linux has it since 2.6.39, but a sandbox may
// forbid the system call. There the engine doesn't notice a suspension of the machine.
func systemSuspended() time.Duration {
	if time.Since(epoch) < 0 || bootOffset == unreadable {
		return 0
	}
	return max(ahead(clockBoottime), bootOffset) - bootOffset
}

// ahead reads the clock called id first: time that passes between the two readings then makes the
// result smaller, never larger than the truth. Go reads its own clock without a system call, so the
// system call is most of what this costs.
func ahead(id uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return unreadable
	}
	return time.Duration(ts.Nano()) - time.Since(epoch)
}

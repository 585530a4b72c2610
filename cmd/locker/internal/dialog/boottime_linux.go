package dialog

import (
	"syscall"
	"unsafe"
)

const clockBoottime = 7

// boottime is CLOCK_BOOTTIME in nanoseconds, which goes on while the machine sleeps; 0 where a
// sandbox forbids to read it.
func boottime() int64 {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0
	}
	return ts.Nano()
}

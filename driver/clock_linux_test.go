package driver

import (
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// Where a sandbox forbids reading the clock of suspensions, a program must start nevertheless.
func TestAClockThatCannotBeRead(t *testing.T) {
	const noSuchClock = 9999
	if got := ahead(noSuchClock); got != unreadable {
		t.Errorf("a clock that doesn't exist is ahead by %v, want it to be unreadable", got)
	}
	before := bootOffset
	defer func() { bootOffset = before }()
	bootOffset = unreadable
	if got := systemSuspended(); got != 0 {
		t.Errorf("suspended for %v where no clock says so, want 0", got)
	}
}

func skipUnlessReadable(t *testing.T) {
	t.Helper()
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		t.Skipf("the clock of suspensions can't be read here: %v", errno)
	}
}

// What the clock of suspensions has gained since the start was spent suspended.
func TestASuspensionIsSeen(t *testing.T) {
	skipUnlessReadable(t)
	before := bootOffset
	defer func() { bootOffset = before }()
	bootOffset -= time.Hour
	if got := systemSuspended(); got.Round(time.Minute) != time.Hour {
		t.Errorf("suspended for %v, want an hour", got)
	}
}

// While the machine runs, both clocks gain the same.
func TestTimeThatPassesIsNoSuspension(t *testing.T) {
	skipUnlessReadable(t)
	const passes = 100 * time.Millisecond
	time.Sleep(passes)
	if got := ahead(clockBoottime) - bootOffset; got > passes/2 {
		t.Errorf("the clock of suspensions has gained %v, want nothing", got)
	}
}

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// continuesFirst says that a stop by SIGTTIN or SIGTTOU comes from the kernel, when somebody in the
// background wants the terminal: a locker that is CMD stops itself after Ctrl-Z by another signal,
// stopSignal.
const continuesFirst = true

// stopSignal is what this program stops itself with after Ctrl-Z.
const stopSignal = syscall.SIGTSTP

// obey gives a signal its default action until restore is called. The Go runtime doesn't do that
// for a signal that it has caught before, as it has SIGTSTP.
func obey(sig syscall.Signal) (restore func()) {
	var byDefault, before [16]uint64 // larger than the kernel's struct sigaction, in which zeros say SIG_DFL
	sigaction(sig, &byDefault, &before)
	return func() { sigaction(sig, &before, nil) }
}

func sigaction(sig syscall.Signal, action, before *[16]uint64) {
	const maskSize = 8
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(before)), maskSize, 0, 0)
	if errno != 0 {
		panic("locker: sigaction: " + errno.Error()) // it has no other use than for this signal
	}
}

// stopPending reports whether a Ctrl-Z waits until the process called pid goes on.
func stopPending(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false // it has ended
	}
	_, shared, _ := strings.Cut(string(status), "\nShdPnd:")
	var pending uint64
	_, err = fmt.Sscanf(shared, "%x", &pending)
	return err == nil && pending&(1<<(syscall.SIGTSTP-1)) != 0
}

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"
)

// terminal is the terminal that controls this process, if there is one.
type terminal struct{ fd int }

func openTerminal() terminal {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return terminal{fd: -1}
	}
	return terminal{fd}
}

func (t terminal) close() {
	if t.fd >= 0 {
		_ = syscall.Close(t.fd)
	}
}

// foreground returns the process group in the foreground, or 0 where there is none.
func (t terminal) foreground() int {
	var group int32
	if t.fd < 0 || t.ioctl(syscall.TIOCGPGRP, &group) != 0 {
		return 0
	}
	return int(group)
}

// setForeground is called from a background group, too. The kernel sends SIGTTOU to such a group,
// so this program ignores SIGTTOU from now on. CMD is already started, and doesn't inherit that.
func (t terminal) setForeground(group int) {
	signal.Ignore(syscall.SIGTTOU)
	g := int32(group)
	_ = t.ioctl(syscall.TIOCSPGRP, &g) // it fails if the terminal is gone, which CMD notices, too
}

func (t terminal) ioctl(request uintptr, group *int32) syscall.Errno {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(t.fd), request, uintptr(unsafe.Pointer(group)))
	return errno
}

// interruption returns a function that ends this process by SIGINT. It returns nil if sig is
// another signal, or if there is no terminal. Shells that run a script need this: after Ctrl-C a
// shell continues the script unless the command was ended by SIGINT. With wholeJob the function
// interrupts the process group, for a Ctrl-C that only CMD got.
func (t terminal) interruption(sig os.Signal, wholeJob bool) func() {
	if t.fd < 0 || sig != syscall.SIGINT {
		return nil
	}
	return func() {
		pid := os.Getpid()
		if wholeJob {
			pid = 0
		}
		signal.Reset(syscall.SIGINT)
		_ = syscall.Kill(pid, syscall.SIGINT)
		time.Sleep(suspendTakes) // another thread may get the signal
	}
}

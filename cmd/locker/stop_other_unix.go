//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package main

import "syscall"

// continuesFirst would need a stopSignal that nothing else stops with. So here a Ctrl-Z is lost
// that is typed in the microseconds in which CMD gets the terminal.
const continuesFirst = false

// stopSignal is what this program stops itself with after Ctrl-Z: SIGTTIN, whose action is the one of
// SIGTSTP. The Go runtime doesn't give SIGTSTP its default action back once it was caught.
const stopSignal = syscall.SIGTTIN

func obey(syscall.Signal) (restore func()) { return func() {} }

func stopPending(int) bool { return false }

//go:build !linux

package main

import (
	"os"
	"syscall"
)

// isAround reports whether the process called pid exists; who is whose parent can't be seen here
// without another program. (Windows doesn't know the signal, so nothing is known to be around
// there.)
func isAround(pid int) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

package main

import (
	"bytes"
	"fmt"
	"os"
)

// isAround reports whether the process called pid is the parent of this one, or the parent's
// parent, and so on. One that CMD has left running has lost these parents, and its locker doesn't
// wait for it.
func isAround(pid int) bool {
	for at := os.Getppid(); at > 0; at = parentOf(at) {
		if at == pid {
			return true
		}
	}
	return false
}

// parentOf returns 0 where there is none to be seen. (/proc/PID/stat is PID (COMMAND) STATE PARENT
// …)
func parentOf(pid int) (parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var state string
	if _, err := fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent); err != nil {
		return 0
	}
	return parent
}

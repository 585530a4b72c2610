//go:build darwin || dragonfly || netbsd || openbsd

package main

import "syscall"

// dieWithParent does nothing: these systems can't tie a process to its parent.
func dieWithParent(*syscall.SysProcAttr) {}

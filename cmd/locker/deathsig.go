//go:build linux || freebsd

package main

import "syscall"

// dieWithParent has the kernel kill CMD when this program ends without having waited for it.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var _ driver.Breaker = (*fileDriver)(nil)

// Break refuses, and says what helps. A lock of the kernel ends when its holder closes the file or
// ends itself. A new file in the place of the old one would let others in, and the holder would go
// on.
func (d *fileDriver) Break(_ context.Context, name string, token locker.Token, breach locker.Breach) (locker.Effect, error) {
	const inherited = ", and another one that has inherited the file keeps the lock: end that one (fuser and lsof show it)"
	help := "end the process that holds it"
	path := filepath.Join(d.dir, fileName(name, breach.Slot))
	switch pid := d.process(path, token); {
	case pid == "":
	case ended(pid):
		help = "process " + pid + " has ended" + inherited
	case lacks(pid, path):
		help = "process " + pid + " doesn't have the lock any more, or is a new one with the same id" + inherited
	default:
		help = "kill " + pid
	}
	return locker.Effect{}, fmt.Errorf("%w: a lock of the kernel ends with its process: %s", locker.ErrNoBreaker, help)
}

// ended reports whether there is no process with this id. The kernel names the process that took the
// lock, also when a child keeps the file.
func ended(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && n > 0 && errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
}

// process is the id of the process whose lease with this token holds the lock of the file; empty: it
// isn't known.
func (d *fileDriver) process(path string, token locker.Token) string {
	holder, err := d.holder(path)
	if err != nil || holder == nil || holder.Token != token || holder.Session == "0" { // of another namespace
		return ""
	}
	return holder.Session
}

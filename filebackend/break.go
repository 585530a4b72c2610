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
	help := "end the process that holds it"
	if pid := d.process(name, breach.Slot, token); pid != "" {
		help = "kill " + pid
		if ended(pid) {
			help = "process " + pid + " has ended, and another one that has inherited the file keeps the lock: end that one (fuser and lsof show it)"
		}
	}
	return locker.Effect{}, fmt.Errorf("%w: a lock of the kernel ends with its process: %s", locker.ErrNoBreaker, help)
}

// ended reports whether there is no process with this id. The kernel names the process that took the
// lock, also when a child keeps the file.
func ended(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && n > 0 && errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
}

// process is the id of the process whose lease with this token holds the lock or the slot; empty: it
// isn't known.
func (d *fileDriver) process(name string, slot int, token locker.Token) string {
	holder, err := d.holder(filepath.Join(d.dir, fileName(name, slot)))
	if err != nil || holder == nil || holder.Token != token || holder.Session == "0" { // of another namespace
		return ""
	}
	return holder.Session
}

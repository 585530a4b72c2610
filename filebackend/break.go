//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var _ driver.Breaker = (*fileDriver)(nil)

// Break refuses, and says what helps. A lock of the kernel ends when its holder closes the file or
// ends itself. A new file in the place of the old one would let others in, and the holder would go
// on.
func (d *fileDriver) Break(ctx context.Context, name string, token locker.Token, _ locker.Breach) (locker.Effect, error) {
	help := "end the process that holds it"
	if pid := d.process(ctx, name, token); pid != "" {
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

// process is the id of the process whose lease with this token holds the lock; empty: it isn't
// known.
func (d *fileDriver) process(ctx context.Context, name string, token locker.Token) string {
	var self driver.Driver = d
	i, ok := self.(driver.Inspector) // on Linux
	if !ok {
		return ""
	}
	s, err := i.Inspect(ctx, name, 0)
	if err != nil || s.Holder == nil || s.Holder.Token != token || s.Holder.Session == "0" { // of another namespace
		return ""
	}
	return s.Holder.Session
}

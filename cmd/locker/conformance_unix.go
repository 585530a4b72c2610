//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"

	"github.com/fencedlock/locker/conformance"
	holder "github.com/fencedlock/locker/conformance/process"
)

// holders starts processes of this program that hold locks, and can be killed and stopped.
func holders(url string) func(conformance.T) holder.Process {
	return func(t conformance.T) holder.Process {
		self, err := os.Executable()
		if err != nil {
			t.Fatalf("%v", err)
		}
		cmd := exec.Command(self, holderCommand)
		cmd.Env = append(os.Environ(), envURL+"="+url)
		// A group of its own, so that a Ctrl-C ends the case and not its holder, which the case
		// would blame the backend for.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return holder.Start(t, cmd)
	}
}

//go:build unix

package process_test

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/membackend"
)

// The test binary itself is the program of the holder, when a variable says so. TestMain calls this
// function first.
func ExampleServe() {
	_ = func() { // at the beginning of TestMain
		if os.Getenv("HOLDER") == "" {
			return
		}
		l := membackend.New() // your backend
		if err := process.Serve(l, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// The hook Process starts the test binary again, as a holder.
func ExampleStart() {
	var h conformance.Harness
	h.Process = func(t conformance.T) process.Process {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "HOLDER=1")
		return process.Start(t, cmd)
	}
}

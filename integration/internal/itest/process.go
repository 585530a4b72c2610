//go:build unix

package itest

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
)

const (
	// holderURL is the environment variable that makes the test binary a holder, with the URL of
	// its own Locker.
	holderURL = "LOCKER_INTEGRATION_HOLDER"

	// holderRole is the environment variable for what the holder does, if it doesn't serve the
	// suite.
	holderRole = "LOCKER_INTEGRATION_ROLE"
	roleWriter = "writer"
)

// StartHolder is a hook of the suite: a process whose Locker is opened by its URL.
func StartHolder(url string) func(conformance.T) process.Process {
	return func(t conformance.T) process.Process {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), holderURL+"="+url)
		return process.Start(t, cmd)
	}
}

// holder is the main function of a holder's process.
func holder(url string) (exit int) {
	l, err := locker.Open(context.Background(), url)
	if err == nil {
		defer l.Close()
		serve := process.Serve
		switch os.Getenv(holderRole) {
		case roleWriter:
			serve = work
		case roleCandidate:
			serve = stand
		}
		err = serve(l, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "holder:", err)
		return 1
	}
	return 0
}

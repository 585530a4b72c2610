//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Where there are no process groups, or none that this program knows how to handle, CMD is one
// process: what it has started gets no signals from here, and nothing ends CMD when this program is
// killed.

var (
	endingSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}
	passedSignals []os.Signal
)

func surviveBrokenPipe() {}

func signalNumber(sig os.Signal) int {
	if sig == os.Interrupt {
		return 2
	}
	return 15
}

// endsHold reports whether a signal is meant for this process alone: the console sends Ctrl-C to all
// its processes.
func endsHold(sig os.Signal) bool { return sig == syscall.SIGTERM }

type child struct {
	cmd       *exec.Cmd
	changed   chan struct{}  // closed when CMD has ended
	continued chan os.Signal // nil: there is no such signal
	err       error          // of cmd.Wait
}

// start starts cmd, and closes inherit: no lock depends on a descriptor here.
func start(cmd *exec.Cmd, inherit *os.File, _ terminal) (*child, error) {
	_ = inherit.Close()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, changed: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.changed)
	}()
	return c, nil
}

func (c *child) look() (ended, stopped bool) {
	select {
	case <-c.changed:
		return true, false
	default:
		return false, false
	}
}

// pass fails on Windows, where the console has sent Ctrl-C to CMD already.
func (c *child) pass(sig os.Signal) error { return c.cmd.Process.Signal(sig) }

func (c *child) proceed() {}

// terminate kills CMD at once on Windows, which has no signal to ask for it.
func (c *child) terminate() error {
	if c.cmd.Process.Signal(syscall.SIGTERM) == nil {
		return nil
	}
	return c.kill()
}

func (c *child) kill() error { return c.cmd.Process.Kill() }

func (c *child) close() {}

func (c *child) result() error {
	var exit *exec.ExitError
	switch {
	case c.err == nil:
		return nil
	case errors.As(c.err, &exit) && exit.ExitCode() >= 0:
		return &exitError{code: exit.ExitCode()}
	}
	return &exitError{code: exitSignal, err: c.err} // the error names the signal
}

type terminal struct{}

func openTerminal() terminal { return terminal{} }

func (terminal) close() {}

func (terminal) interruption(os.Signal, bool) func() { return nil }

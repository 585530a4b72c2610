//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

var (
	// endingSignals end a wait for the lock.
	endingSignals = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}
	// passedSignals are passed on to CMD, together with endingSignals, and SIGCONT, which has a
	// channel of its own.
	passedSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGTSTP}
)

// surviveBrokenPipe keeps this program, and CMD with it, from ending when nobody reads its output any
// more. CMD doesn't inherit this. It would inherit it if the signal were ignored.
func surviveBrokenPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func signalNumber(sig os.Signal) int { return int(sig.(syscall.Signal)) }

// endsHold reports whether a signal is meant for this process alone: a terminal sends the others to
// its whole job.
func endsHold(sig os.Signal) bool { return sig == syscall.SIGTERM }

// child is CMD: the leader of a process group of its own, so that signals reach what it has started
// as well, and this program can outlive them. One goroutine uses it.
//
// On a terminal the group runs in the background, so that Ctrl-C and Ctrl-Z reach this program
// together with whatever else is in its job (a script, a pipeline), and are passed on. When CMD
// wants the terminal for itself, to read or to change its modes, the kernel stops it with SIGTTIN
// or SIGTTOU; then it gets the foreground and goes on.
type child struct {
	pid       int
	tty       terminal
	changed   chan os.Signal // SIGCHLD: look again
	continued chan os.Signal // SIGCONT
	status    syscall.WaitStatus
	ended     bool
	ending    bool // CMD got SIGTERM from this program
	halting   bool // CMD got SIGTSTP from this program
	handOver  bool // CMD gets the terminal when it is continued
	front     bool // CMD had the foreground when it ended
	typed     bool // SIGINT was passed on
}

// start starts cmd, and closes inherit. CMD gets the descriptor, if there is one, under the next
// free number. A fixed number could replace a descriptor that CMD's caller has prepared, as make
// does for its jobs.
func start(cmd *exec.Cmd, inherit *os.File, tty terminal) (*child, error) {
	if inherit != nil {
		fd, err := duplicate(inherit)
		_ = inherit.Close()
		if err != nil {
			return nil, err
		}
		defer func() { _ = syscall.Close(fd) }()
	}
	c := &child{tty: tty, changed: make(chan os.Signal, 1), continued: make(chan os.Signal, 1)}
	signal.Notify(c.changed, syscall.SIGCHLD)
	signal.Notify(c.continued, syscall.SIGCONT)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.pid = cmd.Process.Pid
	_ = cmd.Process.Release() // look waits for CMD instead, because Process.Wait doesn't report stops
	return c, nil
}

// duplicate returns a descriptor of the same open file. The next started process inherits it.
func duplicate(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	if controlErr := raw.Control(func(old uintptr) { fd, err = syscall.Dup(int(old)) }); controlErr != nil {
		return 0, controlErr
	}
	return fd, err
}

// look returns the state of CMD. stopped reports that CMD was stopped and must be continued now,
// with proceed.
func (c *child) look() (ended, stopped bool) {
	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(c.pid, &status, syscall.WNOHANG|syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
			continue
		case err != nil:
			panic("locker: wait for CMD: " + err.Error()) // nobody else waits for it
		case pid == 0:
			return false, false
		}
		if status.Stopped() {
			return false, c.halted(status.StopSignal())
		}
		c.status, c.ended = status, true
		c.front = c.tty.foreground() == c.pid
		return true, false
	}
}

// halted handles a stop of CMD, and reports whether CMD must be continued.
func (c *child) halted(sig syscall.Signal) bool {
	front, own := c.tty.foreground(), syscall.Getpgrp()
	wantsTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	switch {
	case wantsTerminal && front == own && !c.halting:
		c.handOver = true
	case wantsTerminal && front == c.pid && !c.halting && continuesFirst:
		// CMD went on and wanted the terminal just before it was handed over. From here on Ctrl-Z
		// reaches this program; one that has reached CMD since the handover is still pending, and
		// SIGCONT would discard it.
		c.tty.setForeground(own)
		if c.handOver = !stopPending(c.pid); !c.handOver {
			c.suspend(0, stopSignal)
		}
	case c.ending: // CMD continues, unless it would be stopped again at once
		return !wantsTerminal
	case front == c.pid: // only CMD got the Ctrl-Z, so the rest of the job is stopped as well
		c.tty.setForeground(own)
		c.suspend(0, stopSignal)
	case c.halting:
		c.suspend(os.Getpid(), stopSignal)
	case wantsTerminal: // this program doesn't have the terminal, so it asks its shell, or a locker around it
		c.suspend(os.Getpid(), syscall.SIGTTIN)
	default: // somebody has stopped CMD alone, and will continue it
		return false
	}
	c.halting = false
	return true
}

// suspendTakes is much longer than the kernel needs to stop this program after it has sent itself a
// signal.
const suspendTakes = 100 * time.Millisecond

// suspend stops this program, or its whole process group for 0, and returns when it was continued.
// Unlike SIGSTOP, sig (SIGTSTP or SIGTTIN) does nothing where no shell is left that could continue
// us.
//
// The SIGCONT that ends the stop is taken here: CMD is continued by proceed. If it were passed on
// as well, it could come late, and the kernel discards a Ctrl-Z on its way to CMD when CMD gets
// SIGCONT.
func (c *child) suspend(pid int, sig syscall.Signal) {
	select {
	case <-c.continued: // one from before
	default:
	}
	defer obey(sig)()
	_ = syscall.Kill(pid, sig)
	for range 2 { // the first time passes during the stop; then SIGCONT may still be on its way through the Go runtime
		select {
		case <-c.continued:
			return
		case <-time.After(suspendTakes):
		}
	}
}

// pass passes a signal on. Like terminate and kill, it returns the error of kill(2).
func (c *child) pass(sig os.Signal) error {
	switch sig {
	case syscall.SIGTSTP:
		if c.ending {
			return nil
		}
		c.halting = true
	case syscall.SIGINT:
		c.typed = true
	}
	return c.signal(sig.(syscall.Signal))
}

// proceed continues CMD, with the terminal if CMD wanted it. A Ctrl-Z that reaches CMD between the
// handover and SIGCONT would be discarded by the kernel. So CMD is continued first where halted can
// tell a CMD that is stopped again because it was too fast.
func (c *child) proceed() {
	handOver := c.handOver
	c.handOver = false
	if handOver && !continuesFirst {
		c.tty.setForeground(c.pid)
	}
	_ = c.signal(syscall.SIGCONT)
	if handOver && continuesFirst {
		c.tty.setForeground(c.pid)
	}
}

// terminate asks CMD to end, also when it is stopped.
func (c *child) terminate() error {
	c.ending, c.halting = true, false
	err := c.signal(syscall.SIGTERM)
	c.proceed()
	return err
}

// kill ends what is left of CMD's group. It may be called right after CMD has ended: for another
// group to have its number by then, all process ids would have to be used up meanwhile.
func (c *child) kill() error { return c.signal(syscall.SIGKILL) }

// signal fails with EPERM if all processes of the group run as other users.
func (c *child) signal(sig syscall.Signal) error {
	err := syscall.Kill(-c.pid, sig)
	if err != nil && !c.ended {
		// It has moved to another group, or has ended and wasn't waited for yet, which macOS calls
		// EPERM for a group alone.
		err = syscall.Kill(c.pid, sig)
	}
	return err
}

// result is CMD's exit code; nil for 0.
func (c *child) result() error {
	switch {
	case !c.status.Signaled():
		if code := c.status.ExitStatus(); code != 0 {
			return &exitError{code: code}
		}
		return nil
	case c.front || c.typed:
		return &exitError{code: exitSignal + int(c.status.Signal()), interrupt: c.tty.interruption(c.status.Signal(), c.front)}
	}
	return &exitError{code: exitSignal + int(c.status.Signal())}
}

// close takes the terminal back when CMD has ended.
func (c *child) close() {
	signal.Stop(c.changed)
	signal.Stop(c.continued)
	if c.front {
		c.tty.setForeground(syscall.Getpgrp())
	}
}

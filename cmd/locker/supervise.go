package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"time"

	"github.com/fencedlock/locker"
)

// stderrPatience is how long the end of this program waits for a line to be taken by a reader that has stalled.
const stderrPatience = time.Second

// supervise runs cmd until it has ended, passes signals on to it, and ends it when the lease is lost; told says that
// this was reported. Everything that is sent to CMD is sent from here, so that nothing is sent to a process id that
// belongs to somebody else already.
func (r *runner) supervise(cmd *exec.Cmd, lease locker.Lease) (told bool, err error) {
	// Linux ties CMD's life to the thread that has started it: it must live until CMD has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	inherit, err := keepOpen(lease)
	if lease.Err() != nil {
		return false, nil // Release says the same
	}
	if err != nil {
		return false, lockFailure(err)
	}
	catch(r.signals, passedSignals)
	c, err := start(cmd, inherit, r.tty)
	if err != nil {
		return false, startFailure(err)
	}
	defer c.close()

	done := lease.Done()
	var kill <-chan time.Time
	var printed chan struct{}
	for {
		var sig os.Signal
		select {
		case <-c.changed:
		case sig = <-r.signals:
		case <-done:
			done = nil
		case <-kill:
			c.kill()
		}
		ended, stopped := c.look()
		// Err reads the clock, so a CMD that was stopped together with this program isn't continued without its lock.
		if lost := lease.Err(); lost != nil && printed == nil && !ended {
			c.terminate()
			kill = time.After(r.grace)
			printed = r.sayAside(fmt.Sprintf("%v; CMD gets TERM now and KILL after %v", lost, r.grace))
		}
		if ended {
			break
		}
		if stopped {
			c.proceed() // first, because it would undo a stop that sig asks for
		}
		if sig != nil {
			c.pass(sig)
		}
	}
	if lease.Err() != nil {
		c.kill() // whom CMD has left behind in its group
	}
	if printed != nil {
		select {
		case <-printed:
		case <-time.After(stderrPatience):
		}
	}
	return printed != nil, c.result()
}

// sayAside prints a line while the caller goes on: a reader of stderr that has stalled must not keep it from its work.
func (r *runner) sayAside(message string) chan struct{} {
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		say(r.stderr, message)
	}()
	return printed
}

// catch has signals sent to ch, but for those that are ignored, as under nohup(1): CMD inherits that.
func catch(ch chan<- os.Signal, signals []os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
}

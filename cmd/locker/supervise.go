package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"time"

	"github.com/fencedlock/locker"
)

// stderrLimit is how long the end of this program waits until a stalled reader takes a line.
const stderrLimit = time.Second

// cantSignal is printed for a CMD that gets no signals, neither those that are passed on nor TERM
// and KILL: only root may signal sudo(8).
const cantSignal = "CMD can't be signalled, because it runs as another user"

// supervise runs cmd until it has ended, passes signals on to it, and ends it when the lease is
// lost; reported says that the loss was printed. All signals to CMD are sent from here, so that no
// signal is sent to a process id that already belongs to another process.
func (r *runner) supervise(cmd *exec.Cmd, lease locker.Lease) (reported bool, err error) {
	// Linux ties CMD's life to the thread that has started it, which must live until CMD has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	inherit, err := keepOpen(lease)
	if lease.Err() != nil {
		return false, nil // Release returns the reason
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
	var said []chan struct{}
	denied := false // stderr says that CMD can't be signalled
	for {
		var sig os.Signal
		var signalErr error
		select {
		case <-c.changed:
		case sig = <-r.signals:
		case sig = <-c.continued:
		case <-done:
			done = nil
		case <-kill:
			signalErr = c.kill()
		}
		ended, stopped := c.look()
		// Err reads the clock, so a CMD that was stopped together with this program isn't continued
		// without its lock.
		if lost := lease.Err(); lost != nil && !reported && !ended {
			reported = true
			means := fmt.Sprintf("CMD gets TERM now and KILL after %v", r.grace)
			if errors.Is(c.terminate(), fs.ErrPermission) {
				denied, means = true, cantSignal
			}
			kill = time.After(r.grace)
			said = append(said, sayAside(r.stderr, fmt.Sprintf("%v; %s", lost, means)))
		}
		if ended {
			break
		}
		if stopped {
			c.proceed() // first, because it would undo a stop that sig requests
		}
		if sig != nil {
			signalErr = c.pass(sig)
		}
		if errors.Is(signalErr, fs.ErrPermission) && !denied {
			denied = true
			said = append(said, sayAside(r.stderr, cantSignal))
		}
	}
	if lease.Err() != nil {
		_ = c.kill() // processes that CMD has left in its group
	}
	flush(said...)
	return reported, c.result()
}

// flush waits until lines were printed, for a limited time.
func flush(said ...chan struct{}) {
	limit := time.After(stderrLimit)
	for _, printed := range said {
		select {
		case <-printed:
		case <-limit:
			return
		}
	}
}

// sayAside prints a line while the caller goes on: a reader of stderr that has stalled must not
// stop its work.
func sayAside(w io.Writer, message string) chan struct{} {
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		say(w, message)
	}()
	return printed
}

// catch sends signals to ch, except those that are ignored, as under nohup(1), which CMD inherits.
// The exception holds for HUP and INT alone: the Go runtime forgets of other signals that they were
// ignored, so they are passed on.
func catch(ch chan<- os.Signal, signals []os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
}

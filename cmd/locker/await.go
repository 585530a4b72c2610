package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// noticeAfter is how long a wait may take before the user sees a line about it.
const noticeAfter = 250 * time.Millisecond

func (a *acquirer) tellOfWait() {
	if !a.quiet && !a.noWait {
		say(a.stderr, "waiting for "+a.name)
	}
}

// await calls f, which ends when cancel is called, and returns its result. A signal cancels f, and
// so does a.gone; after a second signal await no longer waits for f. The error then has the exit
// code for that, whatever f returned; but an error that f had found before a.gone goes first.
// notice, if it isn't nil, is called once when f takes long.
func await[T any](a *acquirer, cancel context.CancelCauseFunc, notice func(), f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	got := make(chan result, 1)
	go func() {
		value, err := f()
		got <- result{value, err}
	}()
	if notice != nil {
		// In the background, because a reader of stderr that has stalled must not keep us from the
		// lock.
		timer := time.AfterFunc(noticeAfter, notice)
		defer timer.Stop()
	}
	var interrupted *exitError
	bySignal, gone := false, a.gone
	for {
		select {
		case <-gone:
			gone = nil
			if interrupted == nil {
				interrupted = a.unwanted()
				cancel(interrupted)
			}
		case sig := <-a.signals:
			if interrupted != nil {
				var zero T
				return zero, interrupted
			}
			interrupted, bySignal = a.interruption(sig), true
			cancel(interrupted)
		case res := <-got:
			found := res.err != nil && !errors.Is(res.err, context.Canceled)
			switch {
			case interrupted != nil && (bySignal || !found):
				return res.value, interrupted
			case res.err != nil:
				return res.value, lockFailure(res.err)
			}
			return res.value, nil
		}
	}
}

// unwanted is the error of a wait for a program that doesn't want the lock any more.
func (a *acquirer) unwanted() *exitError {
	return &exitError{code: exitHeld, err: fmt.Errorf("no longer waiting for %s: the input has ended, or the process that wants it has", a.name)}
}

func (a *acquirer) interruption(sig os.Signal) *exitError {
	exit := &exitError{code: exitSignal + signalNumber(sig), interrupt: a.tty.interruption(sig, false)}
	if !a.quiet {
		exit.err = fmt.Errorf("no longer waiting for %s: %v", a.name, sig)
	}
	return exit
}

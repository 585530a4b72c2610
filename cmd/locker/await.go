package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// noticeAfter is how long a wait may take before the user sees a line about it.
const noticeAfter = 250 * time.Millisecond

func (r *runner) tellOfWait() {
	if !r.quiet && !r.noWait {
		say(r.stderr, "waiting for "+r.name)
	}
}

// await calls f, which ends when cancel is called, and returns its result. A signal cancels f, and
// after a second signal await no longer waits for f; the error then has the signal's exit code,
// whatever f returned. notice, if it isn't nil, is called once when f takes long.
func await[T any](r *runner, cancel context.CancelCauseFunc, notice func(), f func() (T, error)) (T, error) {
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
	for {
		select {
		case sig := <-r.signals:
			if interrupted != nil {
				var zero T
				return zero, interrupted
			}
			interrupted = r.interruption(sig)
			cancel(interrupted)
		case res := <-got:
			switch {
			case interrupted != nil:
				return res.value, interrupted
			case res.err != nil:
				return res.value, lockFailure(res.err)
			}
			return res.value, nil
		}
	}
}

func (r *runner) interruption(sig os.Signal) *exitError {
	exit := &exitError{code: exitSignal + signalNumber(sig), interrupt: r.tty.interruption(sig, false)}
	if !r.quiet {
		exit.err = fmt.Errorf("no longer waiting for %s: %v", r.name, sig)
	}
	return exit
}

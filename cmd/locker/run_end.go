package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// giveBack gives the lock back. err is the outcome of CMD, and reported says that the loss of the lease was
// printed.
func (r *runner) giveBack(l locker.Locker, lease locker.Lease, reported bool, err error) error {
	e := r.end(l)
	stop := r.announce(l, err)
	defer stop()
	defer e.close()
	released := e.release(lease)
	if !errors.Is(released, locker.ErrLost) {
		return err // close tries again what isn't confirmed
	}
	exit := &exitError{code: exitLost}
	if !reported {
		exit.err = released
	}
	return exit
}

// announce says that the lock is kept for --at-least, if it is after a while, and until stop is called. If CMD
// could not be started, that is printed before this wait.
func (r *runner) announce(l locker.Locker, err error) (stop func()) {
	what := "CMD has ended"
	var failed *exitError
	if errors.As(err, &failed) && (failed.code == exitNotStarted || failed.code == exitNotFound) && failed.err != nil {
		flush(sayAside(r.stderr, failed.err.Error()))
		failed.err, what = nil, "CMD was not started"
	}
	if r.atLeast == 0 || r.quiet {
		return func() {}
	}
	timer := time.AfterFunc(noticeAfter, func() {
		if keeps(l) {
			say(r.stderr, fmt.Sprintf("%s; keeping %s until it was held for %v", what, r.name, r.atLeast))
		}
	})
	return func() { timer.Stop() }
}

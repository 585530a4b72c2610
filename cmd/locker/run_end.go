package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// What announce says of CMD.
const (
	hasEnded   = "CMD has ended"
	notStarted = "CMD was not started"
)

// giveUp ends a run without CMD. The lock may have been granted just when a signal came, and is kept for --at-least
// then.
func (r *runner) giveUp(l locker.Locker) {
	stop := r.announce(l, notStarted)
	defer stop()
	r.end(l).close()
}

// giveBack gives the lock back. err is the outcome of CMD, and reported says that the loss of the lease was
// printed.
func (r *runner) giveBack(l locker.Locker, lease locker.Lease, reported bool, err error) error {
	e := r.end(l)
	what := hasEnded
	var failed *exitError
	if errors.As(err, &failed) && (failed.code == exitNotStarted || failed.code == exitNotFound) && failed.err != nil {
		flush(sayAside(r.stderr, failed.err.Error())) // before the wait for --at-least
		failed.err, what = nil, notStarted
	}
	stop := r.announce(l, what)
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

// announce says that the lock is kept for --at-least, if it is after a while, and until stop is called; what says what
// became of CMD.
func (r *runner) announce(l locker.Locker, what string) (stop func()) {
	if r.atLeast == 0 || r.quiet || l == nil {
		return func() {}
	}
	timer := time.AfterFunc(noticeAfter, func() {
		if keeps(l) {
			say(r.stderr, fmt.Sprintf("%s; keeping %s until it was held for %v", what, r.name, r.atLeast))
		}
	})
	return func() { timer.Stop() }
}

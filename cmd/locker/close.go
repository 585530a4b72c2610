package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/fencedlock/locker"
)

// impatience is how long a Close must have lasted before a signal ends the wait for it. As a rule it takes
// milliseconds, and a second Ctrl-C must not leave a lock to its TTL for that.
const impatience = time.Second

// close closes what obtain has returned, which gives the lock back. l is nil if nothing was opened.
//
// A signal that ends this program ends the wait for Close, at once while the lock is only kept for its minimum
// hold, and otherwise when it has lasted for a while: a service that doesn't answer makes it last for 10 s and
// more. The lock is left to its TTL then or, on files, to the end of the process. notice is printed if Close
// keeps the lock; "" prints nothing.
func (a *acquirer) close(l locker.Locker, notice string) {
	defer a.tty.close()
	if l == nil {
		return
	}
	began := time.Now()
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	var announce, enough <-chan time.Time
	if notice != "" {
		announce = time.After(noticeAfter)
	}
	var sig os.Signal
	for {
		select {
		case err := <-closed:
			if err != nil {
				flush(sayAside(a.stderr, err.Error()))
			}
			return
		case <-announce:
			if keeps(l) {
				sayAside(a.stderr, notice)
			}
		case sig = <-a.signals:
			switch {
			case !slices.Contains(endingSignals, sig):
			case keeps(l):
				a.leave(fmt.Sprintf("no longer keeping %s: %v", a.name, sig))
				return
			case enough == nil:
				enough = time.After(time.Until(began.Add(impatience)))
			}
		case <-enough:
			a.leave(fmt.Sprintf("the service has not confirmed that %s is free; it is left to its TTL: %v", a.name, sig))
			return
		}
	}
}

// leave says why the lock is left to its TTL.
func (a *acquirer) leave(message string) {
	if !a.quiet {
		flush(sayAside(a.stderr, message))
	}
}

// keeps reports whether l keeps a lock for its minimum hold.
func keeps(l locker.Locker) bool {
	stats, _ := locker.StatsOf(l)
	return stats.Kept > 0
}

// close gives the lock back. err is the outcome of CMD. If CMD could not be started, that is printed before
// the wait for --at-least.
func (r *runner) close(l locker.Locker, err error) {
	what, notice := "CMD has ended", ""
	var failed *exitError
	if errors.As(err, &failed) && failed.code == exitNotStarted && failed.err != nil {
		flush(sayAside(r.stderr, failed.err.Error()))
		failed.err, what = nil, "CMD was not started"
	}
	if r.atLeast > 0 && !r.quiet {
		notice = fmt.Sprintf("%s; keeping %s until it was held for %v", what, r.name, r.atLeast)
	}
	r.acquirer.close(l, notice)
}

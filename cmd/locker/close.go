package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/fencedlock/locker"
)

// impatience is the shortest wait for the lock to be given back: a signal ends it only after that. As a rule
// the service confirms within milliseconds, and a second Ctrl-C must not leave the lock to its TTL before.
const impatience = time.Second

// ending gives back what obtain has returned, and looks at signals meanwhile.
type ending struct {
	*acquirer
	l      locker.Locker // nil: nothing was opened
	began  time.Time
	signal os.Signal        // the one that ends the wait
	enough <-chan time.Time // nil: there was none
	left   bool             // the wait has ended

	unconfirmed bool // there is a lease, and the service has not confirmed that the lock is free
	wasKept     bool // the lock was given back before the end of its minimum hold
}

// errLeft says that a signal has ended the wait, and what was asked for may be done or not.
var errLeft = errors.New("not confirmed by the service; a signal has ended the wait for that")

// end is called when what the lock was for has ended. The caller closes the result.
func (a *acquirer) end(l locker.Locker) *ending {
	return &ending{acquirer: a, l: l, began: time.Now()}
}

// call calls f, which asks the service, and returns its error. A signal that ends this program ends the wait
// for f, and all later ones: then the error is errLeft.
func (e *ending) call(f func() error) error {
	if e.left {
		return errLeft
	}
	returned := make(chan error, 1)
	go func() { returned <- f() }()
	for {
		select {
		case err := <-returned:
			return err
		case sig := <-e.signals:
			e.heed(sig)
		case <-e.enough:
			e.left = true
			if !e.quiet || e.mayBeHeld() {
				flush(sayAside(e.stderr, e.lastLine()))
			}
			return errLeft
		}
	}
}

// heed has a signal end the wait: at once while the lock is only kept for its minimum hold, and otherwise when
// the end has lasted for a while, because without an answer of the service it lasts for 10 s and more. The lock
// is left to its TTL then or, on files, to the end of the process.
func (e *ending) heed(sig os.Signal) {
	switch {
	case !slices.Contains(endingSignals, sig):
	case keeps(e.l):
		e.signal, e.enough = sig, time.After(0)
	case e.enough == nil:
		e.signal, e.enough = sig, time.After(time.Until(e.began.Add(impatience)))
	}
}

// lastLine is printed when a signal has ended the wait: what it has ended, and what is left.
func (e *ending) lastLine() string {
	stats, _ := locker.StatsOf(e.l)
	switch {
	case stats.Kept > 0:
		return fmt.Sprintf("no longer keeping %s: %v", e.name, e.signal)
	case e.mayBeHeld():
		return fmt.Sprintf("the service has not confirmed that %s is free; it is left to its TTL: %v", e.name, e.signal)
	case stats.Removing > 0:
		return fmt.Sprintf("the service has not confirmed that nothing of the wait for %s is left; it ends with its TTL: %v", e.name, e.signal)
	}
	return fmt.Sprintf("no longer waiting for the service: %v", e.signal)
}

// mayBeHeld reports whether others may find the lock held until its TTL is over, though nobody asked for that.
func (e *ending) mayBeHeld() bool {
	stats, _ := locker.StatsOf(e.l)
	return stats.Kept == 0 && (e.unconfirmed || e.wasKept && stats.Removing > 0)
}

// release gives the lock back.
func (e *ending) release(lease locker.Lease) error {
	e.unconfirmed = true
	err := e.call(func() error { return lease.Release(context.Background()) })
	e.unconfirmed, e.wasKept = err != nil, err == nil && keeps(e.l)
	return err
}

// close closes the Locker. That tries a removal again that isn't confirmed yet.
func (e *ending) close() {
	defer e.tty.close()
	if e.l == nil {
		return
	}
	if err := e.call(e.l.Close); err != nil && !e.left {
		flush(sayAside(e.stderr, err.Error()))
	}
}

// keeps reports whether l keeps a lock for its minimum hold.
func keeps(l locker.Locker) bool {
	stats, _ := locker.StatsOf(l)
	return stats.Kept > 0
}

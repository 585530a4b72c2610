package locker

import (
	"errors"
	"strconv"
	"strings"
)

// The errors of this package. Test for them with [errors.Is]: they come wrapped in an [*Error] and often
// together with a cause, and every cause matches as well.
var (
	// ErrHeld says that the caller didn't get the lock, and that the service hasn't failed: another holder has
	// the lock, others wait for it, or its minimum hold isn't over. It is the answer to [NoWait] and
	// [TryAcquire], and to a wait that ran out of time (which matches [context.DeadlineExceeded] too). A service
	// that fails never gives it, with one exception: on redlock a wait for servers that have forgotten ends with
	// it, because the lock may be held. Also on redlock, TryAcquire may give it when several asked at the same
	// time and none of them has the lock.
	ErrHeld = errors.New("lock is held")

	// ErrHeldByCaller says that the caller itself has the lock: the context of this call comes from the
	// lease's own ([WithLease]), so a wait could never succeed. It is a mistake of the program, because locks
	// are not reentrant. So it doesn't match [ErrHeld].
	ErrHeldByCaller = errors.New("lock is held by the caller itself, and locks are not reentrant")

	// ErrLost says that a lease ended before its holder released it: it expired, or the service said so.
	// Another holder may have the lock by now.
	ErrLost = errors.New("lease is lost")

	// ErrReleased says that a lease was ended by its holder, through Release or Close.
	ErrReleased = errors.New("lease is released")

	// ErrUnconfirmed says that the service hasn't confirmed the removal of a lock. After a Release the removal
	// goes on in the background. After a Close it doesn't, and the lock ends with its TTL, if it has one.
	ErrUnconfirmed = errors.New("removal is not confirmed")

	// ErrNoAnswer says that the service didn't answer in time. A request may still be executed there. If the
	// time was the caller's, the error also matches the error of its context. If it was a time limit of this
	// package or of the backend, the error matches neither [context.DeadlineExceeded] nor [context.Canceled].
	ErrNoAnswer = errors.New("no answer in time")

	// ErrClosed says that the locker was closed.
	ErrClosed = errors.New("locker is closed")

	// ErrName says that a lock's name breaks the rule of [ValidName].
	ErrName = errors.New("invalid lock name")

	// ErrOption says that what the caller asks for is invalid, or more than the service can give: the value
	// of an option, a URL or one of its parameters, a TTL out of the service's bounds, a server of a kind that
	// the backend doesn't take. The text says which. The same call would fail again.
	ErrOption = errors.New("invalid option")

	// ErrTooManyTTLs says that the locker has no session left for another TTL, because leases with other TTLs
	// use all of them. On etcd, ZooKeeper and Postgres each TTL in use needs a session of its own, and a locker has
	// only a few. The text names the TTLs in use. The same call may succeed after some leases have ended.
	ErrTooManyTTLs = errors.New("too many different TTLs are in use")

	// ErrGuarantee says that a locker doesn't promise what was required of it. The text names the guarantee.
	ErrGuarantee = errors.New("guarantee is missing")

	// ErrMaxHold is the cause of an [ErrLost] when the time of [WithMaxHold] is over.
	ErrMaxHold = errors.New("held for longer than the longest hold allowed")
)

// Error is what every operation of a locker returns when it fails: what was tried, where, on which lock, and
// why. It never contains a URL or a password, and its text is one line.
//
// Op is "open", "prefix", "acquire", "renew", "release", "read token", "inspect", "list", "break", "observe" or
// "close", or "lease" in the Err of a lease that has ended. Later versions may add words, so a switch needs a default.
type Error struct {
	Op      string // what was tried: see above
	Backend string // "redis", "etcd", …
	Name    string // the lock's name, or the prefix of a list; empty where an operation has none
	Err     error  // wraps the sentinel and the cause
}

func (e *Error) Error() string {
	s := "locker: " + e.Op
	if e.Name != "" {
		s += " " + strconv.Quote(e.Name)
	}
	if e.Backend != "" {
		s += " on " + e.Backend
	}
	return s + ": " + oneLine(e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// oneLine is the text of an error, with the line breaks of [errors.Join] replaced.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// join is [errors.Join] with its text in one line.
func join(errs ...error) error {
	switch err := errors.Join(errs...).(type) { //nolint:errorlint // the type that Join returns
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		return &joined{err.Unwrap()}
	default:
		return err
	}
}

type joined struct{ errs []error }

func (j *joined) Error() string {
	texts := make([]string, len(j.errs))
	for i, err := range j.errs {
		texts[i] = oneLine(err)
	}
	return strings.Join(texts, "; ")
}

func (j *joined) Unwrap() []error { return j.errs }

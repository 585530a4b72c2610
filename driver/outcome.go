package driver

import (
	"errors"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/verdict"
)

// The cause of a caller's context is the caller's, and an error of the service is the driver's. Either
// may match anything, so the engine adds what locker.OutcomeOf returns. Its own errors need that only
// where they wrap one of the others.

// ranOut distinguishes a context whose time is up from one that was cancelled. callerErr is what
// ContextError returned for it.
func ranOut(callerErr error) bool {
	c, ok := callerErr.(*callerGone) //nolint:errorlint // ContextError returns it as it is
	return ok && c.ranOut
}

// gaveUp adds the outcome to err, the error for a caller whose context is over with callerErr.
// timeOut is the outcome if the caller ran out of time, and did not cancel.
func gaveUp(callerErr error, timeOut string, err error) error {
	if ranOut(callerErr) {
		return &verdict.Outcome{Class: timeOut, Err: err}
	}
	return &verdict.Outcome{Class: locker.OutcomeCanceled, Err: err}
}

// withOutcome adds the outcome to the error of an acquisition that did not end by its caller. It must
// not be called under the engine's mutex.
func withOutcome(err error) error {
	if err == nil || err == locker.ErrHeld || err == locker.ErrClosed { //nolint:errorlint // these as they are, and not what a driver's error wraps
		return err
	}
	switch _, known := err.(*verdict.Outcome); { //nolint:errorlint // not another Locker's, in a driver's error
	case known:
		return err
	case errors.Is(err, locker.ErrName), errors.Is(err, locker.ErrOption), errors.Is(err, errors.ErrUnsupported):
		return &verdict.Outcome{Class: locker.OutcomeInvalid, Err: err} // the driver refuses what the caller asks for
	}
	return &verdict.Outcome{Class: locker.OutcomeError, Err: err}
}

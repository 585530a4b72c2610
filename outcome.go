package locker

import (
	"context"
	"errors"

	"github.com/fencedlock/locker/internal/verdict"
)

// Outcome says what became of a call of Acquire, by its error. It is one of few words, for the labels of metrics:
//
//	granted    nil: there is a lease
//	held       another holder has the lock, and the caller didn't want to wait
//	timeout    the caller's time ran out while another holder had the lock
//	canceled   the caller gave up
//	closed     the locker was closed
//	invalid    the program's mistake: a name, an option, or a lock that the caller itself has
//	error      the service failed, or hadn't answered when the caller's time ran out, or leases with other TTLs
//	           have all sessions of the locker
func Outcome(err error) string {
	// First, because the cause of a caller's context may match anything.
	if outcome, ok := verdict.Find[*verdict.Outcome](err); ok {
		return outcome.Class
	}
	switch held := errors.Is(err, ErrHeld); {
	case err == nil:
		return "granted"
	case errors.Is(err, ErrClosed):
		return "closed"
	case errors.Is(err, ErrName), errors.Is(err, ErrOption), errors.Is(err, errors.ErrUnsupported), errors.Is(err, ErrHeldByCaller):
		return "invalid"
	case held && errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case held:
		return "held"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "error"
}

// LossOf says why a lease was lost, by its Err or by what its Release returned. It is one of few words, for the labels
// of metrics:
//
//	service_failed   the service answered the last renewals with errors; the cause has the last one
//	service_silent   the service didn't answer the last renewal before the deadline, or before a time limit ended it
//	process_late     this process, or its machine, didn't run in time to ask for a renewal
//	unproven         the service answered, but its answers proved no renewal that was new enough
//	not_renewed      the lease was acquired with WithoutRenewal, and its holder didn't renew it
//	revoked          the service said that the lease is over: it expired there, or somebody removed the lock
//	broken           an operator has taken the lock away by Break; the cause has the Breach
//	max_hold         the longest hold was over
//
// It is empty for an error that doesn't match [ErrLost].
func LossOf(err error) string {
	if !errors.Is(err, ErrLost) {
		return ""
	}
	// First, because the cause may be a service's error, and match anything.
	if loss, ok := verdict.Find[*verdict.Loss](err); ok {
		return loss.Class
	}
	if errors.Is(err, ErrMaxHold) {
		return "max_hold"
	}
	if errors.Is(err, ErrBroken) {
		return "broken"
	}
	return "revoked"
}

package locker

import (
	"context"
	"errors"

	"github.com/fencedlock/locker/internal/verdict"
)

// What [OutcomeOf] returns. Later versions may add words, so a switch needs a default.
const (
	OutcomeGranted  = "granted"  // no error: there is a lease
	OutcomeHeld     = "held"     // another holder has the lock, and the caller didn't want to wait
	OutcomeTimeout  = "timeout"  // the caller's time ran out while another holder had the lock
	OutcomeCanceled = "canceled" // the caller gave up
	OutcomeClosed   = "closed"   // the locker was closed
	OutcomeInvalid  = "invalid"  // the program's mistake: a name, an option, or a lock that the caller itself has
	OutcomeError    = "error"    // the service failed, or hadn't answered when the caller's time ran out, or too many TTLs are in use
)

// OutcomeOf says what became of a call of Acquire, by its error. It is one of few words, such as [OutcomeHeld], for the
// labels of metrics.
func OutcomeOf(err error) string {
	// First, because the cause of a caller's context may match anything.
	if outcome, ok := verdict.Find[*verdict.Outcome](err); ok {
		return outcome.Class
	}
	switch held := errors.Is(err, ErrHeld); {
	case err == nil:
		return OutcomeGranted
	case errors.Is(err, ErrClosed):
		return OutcomeClosed
	case errors.Is(err, ErrName), errors.Is(err, ErrOption), errors.Is(err, errors.ErrUnsupported), errors.Is(err, ErrHeldByCaller):
		return OutcomeInvalid
	case held && errors.Is(err, context.DeadlineExceeded):
		return OutcomeTimeout
	case held:
		return OutcomeHeld
	case errors.Is(err, context.Canceled):
		return OutcomeCanceled
	}
	return OutcomeError
}

// What [LossOf] returns. Later versions may add words, so a switch needs a default.
const (
	LossServiceFailed = "service_failed" // the service answered the last renewals with errors; the cause has the last one
	LossServiceSilent = "service_silent" // the service didn't answer the last renewal before the deadline, or before a time limit ended it
	LossProcessLate   = "process_late"   // this process, or its machine, didn't run in time to ask for a renewal
	LossUnproven      = "unproven"       // the service answered, but its answers proved no renewal that was new enough
	LossNotRenewed    = "not_renewed"    // the lease was acquired with WithoutRenewal, and its holder didn't renew it
	LossRevoked       = "revoked"        // the service said that the lease is over: it expired there, or somebody removed the lock
	LossBroken        = "broken"         // an operator has taken the lock away by Break; the cause has the Breach
	LossMaxHold       = "max_hold"       // the longest hold was over
)

// LossOf says why a lease was lost, by its Err or by what its Release returned. It is one of few words, such as
// [LossServiceSilent], for the labels of metrics. It is empty for an error that doesn't match [ErrLost].
func LossOf(err error) string {
	if !errors.Is(err, ErrLost) {
		return ""
	}
	// First, because the cause may be a service's error, and match anything.
	if loss, ok := verdict.Find[*verdict.Loss](err); ok {
		return loss.Class
	}
	if errors.Is(err, ErrMaxHold) {
		return LossMaxHold
	}
	if errors.Is(err, ErrBroken) {
		return LossBroken
	}
	return LossRevoked
}

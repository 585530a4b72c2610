package kit

import (
	"context"
	"time"
)

// Signal wakes one goroutine that waits for a change: its state has changed, or may have changed
// unseen while a subscription was broken. The state itself is elsewhere, under a mutex, and the
// goroutine looks at it again after each wake. Several signals before that are one.
//
// A Signal is a channel, so that it can also be one case of a select. A nil Signal is never set.
type Signal chan struct{}

// NewSignal makes a Signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set wakes the goroutine that waits, or the next one that does. It never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Wait returns nil when it is time to look at the state: the Signal was set, or d is over. Its error
// is the cause of the end of ctx. When both have happened, a signal that was set comes before the
// end of ctx, and the end of ctx before the end of d. So nothing is lost that came in time, and a
// loop that waits ends when ctx has ended.
func (s Signal) Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case <-s:
		return nil
	default:
		return context.Cause(ctx) // nil: d is over
	}
}

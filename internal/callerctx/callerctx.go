// Package callerctx is what the engine in package driver and package kit share about the context of a
// caller.
package callerctx

import (
	"context"
	"time"
)

// grace is how long AwaitEnd waits. As a rule it takes microseconds.
const grace = time.Second

// AwaitEnd waits for the end of a context whose deadline is over, and else returns at once. A
// connection with the same deadline may notice it a moment earlier. A context of a kind of its own
// may have a deadline and never end: there the wait is limited.
func AwaitEnd(ctx context.Context) {
	until, limited := ctx.Deadline()
	if !limited || time.Now().Before(until) || ctx.Done() == nil {
		return
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

package driver

import (
	"context"
	"errors"
)

// callerGone is the error of a caller's context that is over.
type callerGone struct {
	err, cause error
	ranOut     bool // its time is up, and it wasn't cancelled, whatever the cause says
}

// ContextError returns the error of a context that is over, which matches the context's cause as
// well, and nil while it isn't over. It is for code outside of a [Driver] that a caller waits for:
// with this error an Opener says that the caller gave up. Inside a Driver, return
// context.Cause(ctx); the engine does the rest.
func ContextError(ctx context.Context) error {
	// Never call this, or another method of a caller's context, under the engine's mutex: it may be
	// the context of a lease of this very locker, whose Err takes the mutex.
	if err := ctx.Err(); err != nil {
		return &callerGone{err, context.Cause(ctx), errors.Is(err, context.DeadlineExceeded)}
	}
	return nil
}

func (c *callerGone) Error() string {
	if c.cause == nil || errors.Is(c.err, c.cause) {
		return c.err.Error()
	}
	return c.err.Error() + ": " + c.cause.Error()
}

func (c *callerGone) Unwrap() []error { return []error{c.err, c.cause} }

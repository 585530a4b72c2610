package driver

import (
	"context"
	"sync"
	"time"
)

// callContext is the context of one call of the driver. What the end of a context needs (a timer, a
// place in the parent's list) is made only for a driver that waits for the end, or that derives
// another context. Most clients look at the deadline alone, and the rest costs more than all that
// the engine does for a call.
type callContext struct {
	parent   context.Context //nolint:containedctx // a context is what this is
	deadline time.Time       // zero: the parent's

	mu    sync.Mutex
	whole context.Context //nolint:containedctx // what this is for those that wait; nil: nobody has
	stop  context.CancelCauseFunc
	ended bool
	cause error // why it has ended
}

// newReleaseContext makes a context with the values of another one that never ends.
func newReleaseContext(values context.Context, limit time.Duration) *callContext {
	return &callContext{parent: values, deadline: time.Now().Add(limit)}
}

// end cancels the context.
func (c *callContext) end(cause error) {
	c.mu.Lock()
	if !c.ended {
		c.ended, c.cause = true, cause
	}
	stop := c.stop
	c.mu.Unlock()
	if stop != nil {
		stop(cause)
	}
}

// makeWhole returns a context of the standard library that ends when c does.
func (c *callContext) makeWhole() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole != nil {
		return c.whole
	}
	if c.ended || c.deadline.IsZero() { // ended: even if the deadline has passed since
		c.whole, c.stop = context.WithCancelCause(c.parent)
	} else {
		timed, cancel := context.WithDeadline(c.parent, c.deadline)
		c.whole, c.stop = timed, func(error) { cancel() }
	}
	if c.ended {
		c.stop(c.cause)
	}
	return c.whole
}

// current returns the context that answers for c at the moment: the parent as long as c has not
// ended by itself and nobody waits for its end.
func (c *callContext) current() context.Context {
	c.mu.Lock()
	whole, ended := c.whole, c.ended
	c.mu.Unlock()
	switch {
	case whole != nil:
		return whole
	case ended, !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		return c.makeWhole()
	}
	return c.parent
}

func (c *callContext) Deadline() (time.Time, bool) {
	if c.deadline.IsZero() {
		return c.parent.Deadline()
	}
	return c.deadline, true
}

func (c *callContext) Done() <-chan struct{} { return c.makeWhole().Done() }
func (c *callContext) Err() error            { return c.current().Err() }

// Value returns a value of the parent. Package context also calls it, to find the context of its
// own that another context can be derived from. That one exists by then, because package context
// calls Done first.
func (c *callContext) Value(key any) any { return c.current().Value(key) }

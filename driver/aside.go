package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/callerctx"
)

// Calls that a caller waits for, and may leave behind: renewals by hand, and the calls that belong to
// no acquisition.

// ownWords is how long a call may go on after the end of its context until nobody waits for it any
// more: most drivers end it themselves then, and their error says more.
const ownWords = 100 * time.Millisecond

// maxAside is how many of these calls are under way at once. A system call that hangs keeps a thread,
// and Go ends a process with 10,000 of them.
const maxAside = 1000

// aside makes a call in a goroutine of its own, for which enter was called. It makes none, and returns
// false, if ctx ends while too many others are under way.
func (e *engine) aside(ctx context.Context, call func()) bool {
	select {
	case e.asides <- struct{}{}:
	case <-ctx.Done():
		e.leave()
		return false
	}
	go func() {
		defer e.leave()
		defer func() { <-e.asides }()
		call()
	}()
	return true
}

// callOnce makes one call of the driver that belongs to no acquisition, bounded by the caller's
// context and by callLimit. If callLimit ended it, the error matches locker.ErrNoAnswer, and no error
// of a context.
func callOnce[T any](ctx context.Context, e *engine, call func(ctx context.Context) (T, error)) (T, error) {
	var nothing T
	if err := ContextError(ctx); err != nil {
		return nothing, err
	}
	if !e.enter() {
		return nothing, locker.ErrClosed
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	value, err := answerTo(limited, e, call)
	if err == nil {
		return value, nil
	}
	callerctx.AwaitEnd(ctx)
	if over := ContextError(ctx); over != nil {
		return value, fmt.Errorf("%w: %w", locker.ErrNoAnswer, over)
	}
	return value, ownLimit(limited.Err() != nil, err)
}

// answerTo makes the call of callOnce, and leaves it behind if it goes on after the end of ctx.
func answerTo[T any](ctx context.Context, e *engine, call func(ctx context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var nothing T
	answered := make(chan answer, 1)
	if !e.aside(ctx, func() {
		value, err := call(ctx)
		answered <- answer{value, err}
	}) {
		return nothing, ctx.Err()
	}
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answered:
		return a.value, a.err
	case <-time.After(ownWords):
		return nothing, ctx.Err()
	}
}

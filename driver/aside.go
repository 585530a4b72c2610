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

// maxLeft is how many calls may be left behind before no other is made. A system call that hangs
// keeps a thread, and Go ends a process with 10,000 of them.
const maxLeft = 100

var errManyHang = fmt.Errorf("%w: %d calls are still to be answered", locker.ErrNoAnswer, maxLeft)

// aside makes a call in a goroutine of its own, for which enter was called. The caller calls forget
// when it doesn't wait any more, also if the call is over.
func (e *engine) aside(call func()) (forget func(), err error) {
	var isLeft, isOver bool
	e.mu.Lock()
	full := e.left >= maxLeft
	e.mu.Unlock()
	if full {
		e.leave()
		return nil, errManyHang
	}
	go func() {
		defer e.leave()
		call()
		e.mu.Lock()
		defer e.mu.Unlock()
		isOver = true
		if isLeft {
			e.left--
		}
	}()
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !isOver {
			isLeft = true
			e.left++
		}
	}, nil
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
	answered := make(chan answer, 1)
	forget, err := e.aside(func() {
		value, err := call(ctx)
		answered <- answer{value, err}
	})
	var nothing T
	if err != nil {
		return nothing, err
	}
	defer forget()
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

package kit

import (
	"context"
	"sync"
)

// Flight makes something once for all callers that want it at the same time: a connection, a
// keepalive. What was made is not kept. The zero value is ready for use.
type Flight[T any] struct {
	// Transient reports whether an error may be over by now, so that a later call may succeed: the
	// network was cut, say. nil: no error is.
	Transient func(error) bool

	mu      sync.Mutex
	current *result[T] // nil: no call is under way
}

// result is what callers wait for.
type result[T any] struct {
	done  chan struct{} // closed when value and err are known
	value T
	err   error
}

// Do waits for make, or for a call of it that another caller has begun. The success of such an
// earlier call serves as well. A failure may be from before this caller came, so if it is transient,
// Do waits for one call that has begun later.
//
// make runs as one of tasks, with their context: it goes on for the others when a caller leaves, and
// sets its own time limit. ctx covers the caller's waiting. When ctx ends, the error is its cause, or
// [locker.ErrNoAnswer] where the cause is only that time was up. When tasks are closed it is [ErrClosing].
func (f *Flight[T]) Do(ctx context.Context, tasks *Tasks, make func(context.Context) (T, error)) (T, error) {
	joined, value, err := f.once(ctx, tasks, make)
	if err != nil && joined && ctx.Err() == nil && f.Transient != nil && f.Transient(err) {
		_, value, err = f.once(ctx, tasks, make)
	}
	return value, err
}

// once waits for the call that is under way, or begins one. joined tells which.
func (f *Flight[T]) once(
	ctx context.Context, tasks *Tasks, make func(context.Context) (T, error),
) (joined bool, value T, err error) {
	r, joined := f.join(tasks, make)
	if r == nil {
		return false, value, ErrClosing
	}
	select {
	case <-r.done:
		return joined, r.value, r.err
	case <-ctx.Done():
		return joined, value, Overdue(context.Cause(ctx))
	}
}

// join returns the call that is under way, or begins one; nil when tasks are closed.
func (f *Flight[T]) join(tasks *Tasks, call func(context.Context) (T, error)) (r *result[T], joined bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		return f.current, true
	}
	r = &result[T]{done: make(chan struct{})}
	begun := tasks.Go(func(ctx context.Context) {
		r.value, r.err = call(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.current = nil
		close(r.done)
	})
	if !begun {
		return nil, false
	}
	f.current = r
	return r, false
}

package kit

import (
	"context"
	"sync"
)

// Tasks are the goroutines of a driver, for which its Close waits. Their contexts end with the Tasks
// and not with any caller's context.
//
// A driver ends them in one of two ways. Close lets tasks finish while there is time. Stop ends their
// contexts at once, and Wait then waits for their ends. All methods may be called at any time, more
// than once.
type Tasks struct {
	ctx context.Context //nolint:containedctx // of the goroutines
	end context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	count  int           // tasks that have not ended
	idle   chan struct{} // closed when the last one ends; nil: nobody waits for that
}

// NewTasks makes Tasks without any.
func NewTasks() *Tasks {
	t := &Tasks{}
	t.ctx, t.end = context.WithCancelCause(context.Background())
	return t
}

// Context is the context of the tasks. It ends with Stop, or when Close returns.
func (t *Tasks) Context() context.Context { return t.ctx }

// Go runs task in a goroutine. It is false after Close or Stop, and task is not run.
func (t *Tasks) Go(task func(context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.count++
	go func() {
		defer t.ended()
		task(t.ctx)
	}()
	return true
}

func (t *Tasks) ended() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count--; t.count == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// Stop ends the context of all tasks with a cause, and refuses further ones.
func (t *Tasks) Stop(cause error) {
	t.refuse()
	t.end(cause)
}

func (t *Tasks) refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// Close refuses further tasks, and waits for those that run until they or ctx end. Then it stops
// them with [ErrClosing]. The error is the cause of the end of ctx, and says that tasks may not have
// ended yet. A driver whose tasks end with their context can then wait for them.
func (t *Tasks) Close(ctx context.Context) error {
	t.refuse()
	defer t.Stop(ErrClosing)
	return t.Wait(ctx)
}

// Wait waits until no task runs. The error is the cause of the end of ctx: tasks still run.
func (t *Tasks) Wait(ctx context.Context) error {
	t.mu.Lock()
	if t.count == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

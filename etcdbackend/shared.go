package etcdbackend

import (
	"context"
	"sync"
)

// shared is a call that serves all who ask for it: a keepalive or a Grant is for all locks of a session.
type shared struct {
	mu      sync.Mutex
	current *sharedCall // nil: none is under way
}

type sharedCall struct {
	done chan struct{}
	err  error
}

// do waits for a call. One that was under way already is as good if it succeeds. If it fails, that says nothing of now: it
// may have begun while the network was cut. So then do waits for one that has begun later.
//
// background runs a task in a goroutine, or returns false when the driver is closed. The call goes on when ctx ends, because
// others may wait for it.
func (s *shared) do(ctx context.Context, background func(func(context.Context)) bool, call func(context.Context) error) error {
	joined, err := s.once(ctx, background, call)
	if err != nil && joined && ctx.Err() == nil {
		_, err = s.once(ctx, background, call)
	}
	return err
}

// once waits for the call that is under way, or begins one. joined tells which.
func (s *shared) once(ctx context.Context, background func(func(context.Context)) bool, call func(context.Context) error) (joined bool, err error) {
	c, joined := s.begin(background, call)
	if c == nil {
		return false, errClosing
	}
	select {
	case <-c.done:
		return joined, c.err
	case <-ctx.Done():
		return joined, overdue(context.Cause(ctx))
	}
}

// begin returns the call that is under way, or begins one; nil when the driver is closed.
func (s *shared) begin(background func(func(context.Context)) bool, call func(context.Context) error) (c *sharedCall, joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return s.current, true
	}
	c = &sharedCall{done: make(chan struct{})}
	if !background(func(ctx context.Context) { s.run(ctx, c, call) }) {
		return nil, false
	}
	s.current = c
	return c, false
}

func (s *shared) run(ctx context.Context, c *sharedCall, call func(context.Context) error) {
	c.err = call(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = nil
	close(c.done)
}

package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker"
)

// Sequencer is implemented by a Driver whose service knows the tokens of those who hold its locks.
type Sequencer interface {
	// Current returns the token of the lease that holds the lock called name at some moment during the call, and 0 when
	// nobody does. It changes nothing on the service. It ends with ctx, which may be a caller's, or within limits of the
	// driver's own.
	Current(ctx context.Context, name string) (locker.Token, error)
}

var _ locker.Sequencer = (*engine)(nil)

// Current asks the driver, if that can tell.
func (e *engine) Current(ctx context.Context, name string) (locker.Token, error) {
	if err := locker.ValidName(name); err != nil {
		return 0, e.fail("current", name, err)
	}
	s, ok := e.driver.(Sequencer)
	if !ok {
		return 0, e.fail("current", name, locker.ErrNoSequencer)
	}
	if err := ContextError(ctx); err != nil {
		return 0, e.fail("current", name, err)
	}
	if !e.enter() {
		return 0, e.fail("current", name, locker.ErrClosed)
	}
	defer e.leave()
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	token, err := s.Current(limited, name)
	if err == nil {
		return token, nil
	}
	if over := ContextError(ctx); over != nil {
		err = fmt.Errorf("%w: %w", errNoAnswer, over)
	} else if errors.Is(err, context.DeadlineExceeded) { // that limit is none of the caller's
		err = errNoAnswer
	}
	return 0, e.fail("current", name, err)
}

package conformance_test

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
)

// heldAsNothing, heldAsSuccess and failedAsHeld confuse the answers.
func heldAsNothing(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	if errors.Is(err, locker.ErrHeld) {
		return nil, nil
	}
	return lease, err
}

func heldAsSuccess(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	if errors.Is(err, locker.ErrHeld) {
		return assumed{name: name, done: make(chan struct{})}, nil
	}
	return lease, err
}

// assumed is a lease that no service knows.
type assumed struct {
	name string
	done chan struct{}
}

func (l assumed) Name() string                  { return l.name }
func (l assumed) Token() locker.Token           { return 1 }
func (l assumed) Deadline() time.Time           { return time.Now().Add(time.Hour) }
func (l assumed) Done() <-chan struct{}         { return l.done }
func (l assumed) Err() error                    { return nil }
func (l assumed) Renew(context.Context) error   { return nil }
func (l assumed) Release(context.Context) error { return nil }

func failedAsHeld(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	var e *locker.Error
	if errors.As(err, &e) && ctx.Err() == nil && !errors.Is(err, locker.ErrClosed) && !errors.Is(err, locker.ErrName) &&
		!errors.Is(err, locker.ErrOption) {
		return nil, &locker.Error{Op: e.Op, Backend: e.Backend, Name: e.Name, Err: locker.ErrHeld}
	}
	return lease, err
}

// lenient ignores a TTL that is invalid.
func lenient(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	if errors.Is(err, locker.ErrOption) {
		return l.Acquire(ctx, name, locker.NoWait())
	}
	return lease, err
}

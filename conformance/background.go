package conformance

import (
	"context"
	"errors"
	"runtime"

	"github.com/fencedlock/locker"
)

var errNothing = errors.New("neither a lease nor an error")

// tryBeside is TryAcquire in a goroutine that can't fail the case.
func tryBeside(ctx context.Context, l locker.Locker, name string) (locker.Lease, error) {
	return acquireBeside(ctx, l, name, locker.NoWait())
}

// acquireBeside is Acquire in a goroutine that can't fail the case.
func acquireBeside(ctx context.Context, l locker.Locker, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	if lease == nil && err == nil {
		return nil, errNothing
	}
	return lease, err
}

// yield lets others run.
func yield(n int) {
	for range n {
		runtime.Gosched()
	}
}

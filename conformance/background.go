package conformance

import (
	"context"
	"errors"
	"runtime"

	"github.com/fencedlock/locker"
)

// What cases do in goroutines other than their own, which must not fail the case.

var errNothing = errors.New("neither a lease nor an error")

// tryInBackground is TryAcquire in a goroutine that can't fail the case.
func tryInBackground(ctx context.Context, l locker.Locker, name string) (locker.Lease, error) {
	return acquireInBackground(ctx, l, name, locker.NoWait())
}

// acquireInBackground is Acquire in a goroutine that can't fail the case.
func acquireInBackground(ctx context.Context, l locker.Locker, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	if lease == nil && err == nil {
		return nil, errNothing
	}
	return lease, err
}

// yield lets other goroutines run, n times.
func yield(n int) {
	for range n {
		runtime.Gosched()
	}
}

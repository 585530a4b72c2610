package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/fencedlock/locker"
)

// What cases do in goroutines beside their own.

// contend has n goroutines call f, each a number of times. The first error of each ends it and fails the case.
func contend(t T, n, rounds int, f func(ctx context.Context, i int) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*hang)
	defer cancel()
	fs := make([]func() error, n)
	for i := range fs {
		fs[i] = func() error {
			for range rounds {
				if err := f(ctx, i); err != nil {
					return err
				}
			}
			return nil
		}
	}
	race(t, fs...)
}

// race runs functions at the same time and waits for all. It fails the case when one of them returns an error or
// panics.
func race(t T, fs ...func() error) {
	t.Helper()
	var all sync.WaitGroup
	barrier := make(chan struct{})
	results := make([]error, len(fs))
	for i, f := range fs {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					results[i] = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			<-barrier
			results[i] = f()
		})
	}
	close(barrier)
	err := mustReturn(t, 6*hang, "what goes on beside the case", func() error {
		all.Wait()
		return errors.Join(results...)
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
}

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

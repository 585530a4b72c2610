package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// oneConnection gives each Locker one connection, which a call keeps until it has its answer.
func oneConnection() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		connection := make(chan struct{}, 1)
		take := func(ctx context.Context) error {
			select {
			case connection <- struct{}{}:
				return nil
			default:
			}
			select {
			case connection <- struct{}{}:
				return nil
			case <-ctx.Done():
				return &locker.Error{Op: "connect", Err: fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx))}
			}
		}
		return acquirer{forwards{l}, func(ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
			if err := take(ctx); err != nil {
				return nil, err
			}
			defer func() { <-connection }()
			lease, err := l.Acquire(ctx, name, opts...)
			if err != nil {
				return nil, err
			}
			return connected{lease, take, func() { <-connection }}, nil
		}}
	}
}

type connected struct {
	locker.Lease
	take func(context.Context) error
	give func()
}

func (l connected) Release(ctx context.Context) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	return l.Lease.Release(ctx)
}

// inTurn makes a decorator whose waiters poll, but only the newest or the oldest of all waiters
// asks. Whether that waiter is alive is not checked.
func inTurn(newest bool) decorator {
	return func() func(locker.Locker) locker.Locker {
		var mu sync.Mutex
		var waiting []int
		last := 0
		turn := func(id int) bool {
			mu.Lock()
			defer mu.Unlock()
			if newest {
				return waiting[len(waiting)-1] == id
			}
			return waiting[0] == id
		}
		return func(l locker.Locker) locker.Locker {
			return acquirer{forwards{l}, func(ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
				if req, err := locker.Resolve(name, opts...); err != nil || req.NoWait {
					return l.Acquire(ctx, name, opts...)
				}
				mu.Lock()
				last++
				id := last
				waiting = append(waiting, id)
				mu.Unlock()
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					waiting = remove(waiting, id)
				}()
				for {
					if turn(id) {
						lease, err := l.Acquire(ctx, name, append(opts[:len(opts):len(opts)], locker.NoWait())...)
						if err == nil || errors.Is(err, locker.ErrClosed) {
							return lease, err
						}
					}
					select {
					case <-time.After(4 * time.Millisecond):
					case <-ctx.Done():
						return nil, &locker.Error{Op: "acquire", Name: name, Err: fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx))}
					}
				}
			}}
		}
	}
}

func remove(list []int, id int) []int {
	var rest []int
	for _, other := range list {
		if other != id {
			rest = append(rest, other)
		}
	}
	return rest
}

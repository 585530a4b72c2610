package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
)

// decorator breaks a Locker that works. Each service has its own decorator, so that the service's
// Lockers can share something.
type decorator func() func(locker.Locker) locker.Locker

// plain leaves a Locker as it is.
func plain() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker { return l }
}

// acquirer is a Locker whose Acquire is replaced.
type acquirer struct {
	forwards
	acquire func(ctx context.Context, name string, opts []locker.Option) (locker.Lease, error)
}

func (a acquirer) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	return a.acquire(ctx, name, opts)
}

// onAcquire makes a decorator that shares nothing.
func onAcquire(
	f func(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error),
) decorator {
	return func() func(locker.Locker) locker.Locker {
		return func(l locker.Locker) locker.Locker {
			return acquirer{forwards{l}, func(ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
				return f(l, ctx, name, opts)
			}}
		}
	}
}

// onLease makes a decorator that wraps each lease.
func onLease(f func(locker.Lease) locker.Lease) decorator {
	return onAcquire(func(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
		lease, err := l.Acquire(ctx, name, opts...)
		if err != nil {
			return nil, err
		}
		return f(lease), nil
	})
}

// renamed makes a decorator that maps names carelessly.
func renamed(mapping func(string) string) decorator {
	return onAcquire(func(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
		if locker.ValidName(name) != nil {
			return l.Acquire(ctx, name, opts...)
		}
		lease, err := l.Acquire(ctx, mapping(name), opts...)
		if err != nil {
			return nil, err
		}
		return named{lease, name}, nil
	})
}

type named struct {
	locker.Lease
	name string
}

func (l named) Name() string { return l.name }
func (l named) Unwrap() any  { return l.Lease }

func upToSlash(name string) string {
	if head, _, ok := strings.Cut(name, "/"); ok && head != "" {
		return head
	}
	return name
}

func cutTo100(name string) string { return name[:min(len(name), 100)] }

// giveUp doesn't release with a context that is over.
func giveUp(lease locker.Lease) locker.Lease { return giveUpRelease{lease} }

type giveUpRelease struct{ locker.Lease }

func (l giveUpRelease) Release(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return l.Lease.Release(ctx)
}

// rereadToken shares the last token of each name, like a service that is asked for the current
// token.
func rereadToken() func(locker.Locker) locker.Locker {
	var mu sync.Mutex
	last := make(map[string]locker.Token)
	return func(l locker.Locker) locker.Locker {
		return acquirer{forwards{l}, func(ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
			lease, err := l.Acquire(ctx, name, opts...)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			last[name] = max(last[name], lease.Token())
			return reread{lease, func() locker.Token {
				mu.Lock()
				defer mu.Unlock()
				return last[name]
			}}, nil
		}}
	}
}

type reread struct {
	locker.Lease
	token func() locker.Token
}

func (l reread) Token() locker.Token { return l.token() }

// polledLoss notices a loss only when it looks, every 350 ms.
type polledLoss struct {
	locker.Lease
	done chan struct{}
	end  func() // closes done
}

func pollLoss(lease locker.Lease) locker.Lease {
	done := make(chan struct{})
	l := polledLoss{lease, done, sync.OnceFunc(func() { close(done) })}
	var look func()
	look = func() {
		if lease.Err() != nil {
			l.end()
			return
		}
		time.AfterFunc(350*time.Millisecond, look)
	}
	look()
	return l
}

func (l polledLoss) Release(ctx context.Context) error {
	err := l.Lease.Release(ctx)
	l.end()
	return err
}

func (l polledLoss) Done() <-chan struct{} { return l.done }

func (l polledLoss) Err() error {
	select {
	case <-l.done:
		return l.Lease.Err()
	default:
		return nil
	}
}

// leavePlace waits on when the caller has gone. The place stays in the queue, and delays the
// waiters after it when it is granted the lock.
func leavePlace(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	type outcome struct {
		lease locker.Lease
		err   error
	}
	if ctx.Err() != nil {
		return l.Acquire(ctx, name, opts...)
	}
	got := make(chan outcome, 1)
	var left atomic.Bool
	go func() {
		lease, err := l.Acquire(context.WithoutCancel(ctx), name, opts...)
		if err == nil && left.Load() {
			time.AfterFunc(2*time.Second, func() { _ = lease.Release(context.Background()) })
		}
		got <- outcome{lease, err}
	}()
	select {
	case o := <-got:
		return o.lease, o.err
	case <-ctx.Done():
		left.Store(true)
		err := fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx))
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", locker.ErrHeld, err)
		}
		return nil, &locker.Error{Op: "acquire", Name: name, Err: err}
	}
}

// keepWon checks its context after it has got the lock, and keeps the lock.
func keepWon(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	for range 20 { // a little later
		runtime.Gosched()
	}
	if err == nil && ctx.Err() != nil {
		return nil, &locker.Error{Op: "acquire", Name: name, Err: ctx.Err()}
	}
	return lease, err
}

// leakUntilClose starts a goroutine with each acquisition, which ends with the Locker.
func leakUntilClose() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		closed := make(chan struct{})
		return closer{acquirer{forwards{l}, func(ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
			go func() { <-closed }()
			return l.Acquire(ctx, name, opts...)
		}}, sync.OnceFunc(func() { close(closed) })}
	}
}

type closer struct {
	acquirer
	then func()
}

func (c closer) Close() error {
	defer c.then()
	return c.acquirer.Close()
}

// leakAfterAcquire leaves a goroutine behind.
func leakAfterAcquire(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	go func() { <-make(chan struct{}) }()
	return l.Acquire(ctx, name, opts...)
}

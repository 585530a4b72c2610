package middleware

import (
	"context"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// handle is what one Acquire of a task has: the lease underneath, with an end of its own.
type handle struct {
	locker.Lease
	r       *reentrant
	key     holdingKey
	holding *holding

	done  chan struct{}
	end   func() // closes done
	watch func() // ends the handle with the lease

	mu         sync.Mutex
	err        error     // why it has ended; nil: it hasn't
	deadline   time.Time // the lease's when it ended
	released   bool
	last       bool  // its Release has left no other handle
	lostBefore error // why it had ended before its Release; nil: it had not
}

func newHandle(r *reentrant, key holdingKey, h *holding) *handle {
	l := &handle{Lease: h.lease, r: r, key: key, holding: h, done: make(chan struct{})}
	l.end = sync.OnceFunc(func() { close(l.done) })
	l.watch = sync.OnceFunc(func() {
		go func() {
			select {
			case <-l.Lease.Done():
				_ = l.Err()
			case <-l.done:
			}
		}()
	})
	return l
}

// Unwrap leads [locker.As] to the lease underneath.
func (l *handle) Unwrap() any { return l.Lease }

func (l *handle) Done() <-chan struct{} {
	l.watch()
	return l.done
}

func (l *handle) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.look()
}

// look notes the end of the lease. The mutex is held.
func (l *handle) look() error {
	if l.err == nil {
		if l.err = l.Lease.Err(); l.err != nil {
			l.deadline = l.Lease.Deadline()
			l.end()
		}
	}
	return l.err
}

// Deadline is the lease's, and doesn't move any more when the handle has ended.
func (l *handle) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.deadline
	}
	return l.Lease.Deadline()
}

func (l *handle) Renew(ctx context.Context) error {
	if err := l.Err(); err != nil {
		return err
	}
	if err := l.Lease.Renew(ctx); err != nil {
		return err
	}
	return l.Err() // the handle may have been released meanwhile
}

func (l *handle) Release(ctx context.Context) error {
	_ = context.WithoutCancel(ctx) // before anything changes: without a context it panics
	l.mu.Lock()
	if !l.released {
		l.released = true
		if l.lostBefore = l.look(); l.lostBefore == nil {
			l.deadline = l.Lease.Deadline()
			l.err = &locker.Error{Op: "lease", Backend: l.r.Guarantees().Backend, Name: l.Name(), Err: locker.ErrReleased}
			l.end()
		}
		l.last = l.r.drop(l.holding)
	}
	l.mu.Unlock()
	if l.last {
		return l.r.release(ctx, l.key, l.holding)
	}
	return l.lostBefore
}

package locker

import (
	"context"
	"errors"

	"github.com/fencedlock/locker/internal/leasectx"
)

// TryAcquire is Acquire with the option [NoWait]: it asks for the lock once. The error matches [ErrHeld] if the
// service works and the lock isn't free: another holder has it, others wait for it, or its minimum hold
// ([WithMinHold]) isn't over. ctx bounds the call, not the lease.
func TryAcquire(ctx context.Context, l Locker, name string, opts ...Option) (Lease, error) {
	return l.Acquire(ctx, name, append(opts[:len(opts):len(opts)], NoWait())...)
}

// Do runs fn while it holds the lock. The context that fn gets comes from [WithLease]: it ends when ctx ends
// and when the lease is lost. fn should give the lease's token to its storage before its first read and with
// every write (package fence), and stop when its context ends. Functions below fn find the lease with
// [LeaseFrom]. The options are the same as for Acquire.
//
// When there was no lease, Do returns the error of Acquire, such as one that matches [ErrHeld]. So an
// fn that acquires further locks must not return their errors as they are, if the caller tells by
// ErrHeld that somebody else does the work. Otherwise Do returns fn's error joined
// with Release's. If fn's error already wraps Release's error, as [context.Cause] of fn's context
// does, that error appears once. When fn has returned nil, an error of Do matches one of these, and
// never both:
//
//   - [ErrLost]: the lease was lost before Do released it. Another holder may have had the lock
//     during the last steps of fn. If fn's work is fenced, the work is valid all the same: the
//     storage has accepted it. Without a fence it may not be.
//   - [ErrUnconfirmed]: the lease was held until fn returned, so fn's work is valid. Only the removal
//     of the lock isn't confirmed. It goes on in the background.
//
// That doesn't hold if the program itself ends the lease before, by Release in fn or by Close. The
// lock is released when fn panics, too.
//
// ErrLost doesn't say that the work was not done: a caller that then repeats fenced work may do it
// twice. So store an id of the work in the same step as the work, and do nothing where the id is
// there already.
func Do(ctx context.Context, l Locker, name string, fn func(context.Context, Lease) error, opts ...Option) error {
	return do(ctx, fn, func() (Lease, error) { return l.Acquire(ctx, name, opts...) })
}

func do(ctx context.Context, fn func(context.Context, Lease) error, acquire func() (Lease, error)) (err error) {
	lease, err := acquire()
	if err != nil {
		return err
	}
	leaseCtx, cancel := WithLease(ctx, lease)
	defer func() {
		cancel()
		if releaseErr := lease.Release(ctx); releaseErr != nil && !errors.Is(err, releaseErr) {
			err = join(err, releaseErr)
		}
	}()
	return fn(leaseCtx, lease)
}

// WithLease returns a context that ends with parent or with the lease, whichever is first. When the lease ends,
// the cause ([context.Cause]) is the lease's Err, which matches [ErrLost] or [ErrReleased].
//
// The context's Err reads the clock, as the lease's does: a process that was stopped past the deadline sees the
// end at its first look. This also holds for the contexts of leases that parent comes from. It does not hold
// for contexts that other packages derive from this one ([context.WithTimeout], an errgroup, what database/sql
// passes on). They end when a timer of this process has run, which is about a millisecond after the process
// goes on, and up to a second after a machine has woken up. So look at the lease's own Err before a step that
// matters, or have the storage check the token.
//
// [LeaseFrom] finds the lease in the context, and in those that are derived from it. So does Acquire; see
// [ErrHeldByCaller].
//
// The cancel function frees what the context holds and leaves the lease alone. It may be called twice.
func WithLease(parent context.Context, l Lease) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(parent)
	ctx := &leaseContext{Context: inner, lease: l, cancel: cancel}
	ctx.outer, _ = parent.Value(leaseKey{}).(*leaseContext)
	if ctx.Err() == nil {
		go func() {
			select {
			case <-l.Done():
				cancel(l.Err())
			case <-inner.Done():
			}
		}()
	}
	return ctx, func() { cancel(context.Canceled) }
}

type leaseContext struct {
	context.Context
	lease  Lease
	cancel context.CancelCauseFunc
	outer  *leaseContext // the next one that this one comes from; nil: none
}

// leaseKey is the key of the innermost leaseContext that a context comes from.
type leaseKey struct{}

func (c *leaseContext) Value(key any) any {
	switch key {
	case leaseKey{}:
		return c
	case leasectx.Key{}:
		return c.leases()
	}
	return c.Context.Value(key)
}

func (c *leaseContext) leases() []Lease {
	var leases []Lease
	for ; c != nil; c = c.outer {
		leases = append(leases, c.lease)
	}
	return leases
}

// LeaseFrom returns the lease whose [WithLease] ctx comes from, so that a function deep below [Do] needs no
// further parameter for it. Where locks are nested, it is the innermost lease. The lease may have ended; its Err
// says so. Without a lease in ctx, ok is false.
//
// To claim a resource with the lease's token, use ClaimFrom of the packages below fence: where locks are
// nested, the innermost lease may be the lease of another lock than the resource's.
func LeaseFrom(ctx context.Context) (lease Lease, ok bool) {
	c, ok := ctx.Value(leaseKey{}).(*leaseContext)
	if !ok {
		return nil, false
	}
	return c.lease, true
}

func (c *leaseContext) Err() error {
	if c.outer != nil {
		_ = c.outer.Err() // ends this context, too, if the outer lease is over
	}
	if err := c.lease.Err(); err != nil {
		c.cancel(err) // Done must be closed before Err is not nil: the contract of context.Context
	}
	return c.Context.Err()
}

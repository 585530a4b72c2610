package driver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fencedlock/locker"
)

// Inspector is implemented by a Driver whose service knows who holds a lock. What it tells is said
// by [locker.Guarantees.Inspection].
//
// Nothing changes on the service, whatever is asked: not even an expired holder is passed over, and
// no lease or place is renewed. A driver that finds that its service can't tell returns
// [locker.ErrNoInspector].
type Inspector interface {
	// Inspect returns the state of the lock called name at some moment during the call, with its
	// first waiters, which are from 0 to about a million. A free lock is a Status without Holder.
	// It returns when ctx ends, which may be a caller's context, or within limits of the driver's
	// own. The Status is the caller's. A holder says of itself what its Request has ([LabelOf]), at
	// the latest when its lease was renewed; a waiter does where the service knows its place.
	Inspect(ctx context.Context, name string, waiters int) (locker.Status, error)

	// List prepares a list of the locks whose names begin with prefix, without I/O. Each of them
	// that is held or waited for from the first call of Pages until there are no more pages must be
	// on exactly one page.
	List(prefix string, waiters int) Pages
}

// Pages reads the next page of a list, which may be empty, and reports whether there are more. The
// calls come one after the other, and end with the last page, an error, or when the caller has seen
// enough: nothing may have to be freed then. Each call returns when ctx ends, which may be by the
// engine's time limit for one page, so a page is a few requests at most.
type Pages func(ctx context.Context) (page []locker.Status, more bool, err error)

var _ locker.Inspector = (*engine)(nil)

// maxWaiters is how many waiters a driver is asked for at most. Without it each driver would have to
// add and to send numbers that may be as large as an int.
const maxWaiters = 1 << 20

// Inspect asks the driver, if it is an Inspector.
func (e *engine) Inspect(ctx context.Context, name string, waiters int) (locker.Status, error) {
	i, err := e.inspector(locker.ValidName(name), waiters)
	if err != nil {
		return locker.Status{}, e.fail("inspect", name, err)
	}
	var status locker.Status
	err = e.look(ctx, func(ctx context.Context) (err error) {
		status, err = i.Inspect(ctx, name, min(waiters, maxWaiters))
		return err
	})
	if err != nil {
		return locker.Status{}, e.fail("inspect", name, err)
	}
	return status, nil
}

// List reads the driver's pages. Close doesn't wait for a caller that does something between them.
func (e *engine) List(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
	return func(yield func(locker.Status, error) bool) {
		i, err := e.inspector(validPrefix(prefix), waiters)
		if err != nil {
			yield(locker.Status{}, e.fail("list", prefix, err))
			return
		}
		next := i.List(prefix, min(waiters, maxWaiters))
		for more := true; more; {
			var page []locker.Status
			err := e.look(ctx, func(ctx context.Context) (err error) {
				page, more, err = next(ctx)
				return err
			})
			if err != nil {
				yield(locker.Status{}, e.fail("list", prefix, err))
				return
			}
			for _, status := range page {
				if !yield(status, nil) {
					return
				}
			}
		}
	}
}

// inspector returns the driver as an Inspector, unless an argument is invalid.
func (e *engine) inspector(invalid error, waiters int) (Inspector, error) {
	if invalid != nil {
		return nil, invalid
	}
	if waiters < 0 {
		return nil, fmt.Errorf("%w: %d waiters: want 0 or more", locker.ErrOption, waiters)
	}
	i, ok := e.driver.(Inspector)
	if !ok {
		return nil, locker.ErrNoInspector
	}
	return i, nil
}

func validPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return locker.ValidName(prefix)
}

// look makes one call of the driver that changes nothing, on the goroutine of the caller, bounded
// by the caller's context and by callLimit.
func (e *engine) look(ctx context.Context, call func(ctx context.Context) error) error {
	if err := ContextError(ctx); err != nil {
		return err
	}
	if !e.enter() {
		return locker.ErrClosed
	}
	defer e.leave()
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := call(limited)
	if err == nil {
		return nil
	}
	// A connection has the deadline of the context, and may notice it a moment earlier. A context
	// of the caller's own kind may have a deadline without ever being done.
	if until, limited := ctx.Deadline(); limited && !time.Now().Before(until) && ctx.Done() != nil {
		<-ctx.Done()
	}
	if over := ContextError(ctx); over != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, over)
	}
	if errors.Is(err, context.DeadlineExceeded) { // by the limit above, not by the caller's
		return errNoAnswer
	}
	return err
}

package kit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/callerctx"
)

// ErrClosing says that a request was not answered, or not begun, before the locker was closed.
var ErrClosing = errors.New("no answer before the locker was closed")

// Overdue replaces a context's error by [locker.ErrNoAnswer]. Use it where the driver's own limit ended
// the request: an error that matches a context's error says that the caller gave up. Where err
// matches [ErrNotSent], the result does as well. Any other error stays as it is.
//
// Other errors that say that time is up depend on the client (a status of gRPC,
// [os.ErrDeadlineExceeded] of a connection). The driver looks for those before it calls Overdue.
func Overdue(err error) error {
	switch {
	case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, ErrNotSent):
		return fmt.Errorf("%w: %w", locker.ErrNoAnswer, ErrNotSent)
	}
	return locker.ErrNoAnswer
}

// GaveUp adds to err that the caller gave up, if ctx, the caller's, has ended: the result then
// matches the error of ctx, its cause and err. Otherwise it is err.
//
// A connection has the same deadline as the context that it was made for, and may notice it a moment
// earlier. So where the deadline of ctx is over, GaveUp waits for the end of ctx, up to a second.
func GaveUp(ctx context.Context, err error) error {
	callerctx.AwaitEnd(ctx)
	if gone := driver.ContextError(ctx); gone != nil {
		return fmt.Errorf("%w: %w", gone, err)
	}
	return err
}

// Opening calls open, which asks the service whether it fits, with a context that ends after limit
// or with ctx. An error says whether the caller gave up (it matches the error of ctx, and its cause)
// or the service didn't answer within limit ([locker.ErrNoAnswer]).
//
// hint may add to an error what an operator can do about it. It sees the error after [Overdue], and
// no error of an opening that the caller gave up. nil adds nothing.
//
// Opening closes nothing: after an error the driver closes what open has made. ctx may be over then.
// A driver whose Close doesn't go on in the background needs another context for that.
func Opening(ctx context.Context, limit time.Duration, open func(context.Context) error, hint func(error) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := open(limited)
	if err == nil {
		return nil
	}
	err = Overdue(err)
	if gone := GaveUp(ctx, err); ctx.Err() != nil {
		return gone
	}
	if hint != nil {
		err = hint(err)
	}
	return err
}

// OpenError is what a constructor of a backend returns for err: a [*locker.Error] with the operation
// "open"; nil for nil.
func OpenError(backend string, err error) error {
	if err == nil {
		return nil
	}
	return &locker.Error{Op: "open", Backend: backend, Err: err}
}

package locker

import (
	"context"
	"errors"
	"fmt"
)

// TokenReader is a [Locker] that may be able to read the token of the lease that holds a lock. [CurrentToken] calls it.
type TokenReader interface {
	// CurrentToken returns what the function [CurrentToken] returns. It is safe for concurrent use.
	CurrentToken(ctx context.Context, name string) (Token, error)
}

// CurrentToken asks the service for the token of the lease that holds the lock called name, and returns 0 when the
// lock is free. It is for a program that gets a token with a request and can't keep the highest one that it has seen,
// such as a server without a storage of its own. It is also for an operator who wants to know the holder.
//
// The answer was true at some moment during the call, and may be old when it arrives. So where there is a storage, a
// check there (package fence) is better. The idea comes from the sequencers in Google's Chubby (Burrows, 2006).
//
// ctx covers the call, which also ends after 5 seconds; then the error matches [ErrNoAnswer], and no error of a context.
// Nothing changes on the service. A backend whose service doesn't know the tokens returns [ErrNoTokenReader]; a bad name
// matches [ErrName], a closed locker [ErrClosed], and any other error is ctx's or the service's. The error is an [*Error].
func CurrentToken(ctx context.Context, l Locker, name string) (Token, error) {
	r, ok := AsLocker[TokenReader](l)
	if !ok {
		return 0, &Error{Op: "read token", Backend: l.Guarantees().Backend, Name: name, Err: ErrNoTokenReader}
	}
	return r.CurrentToken(ctx, name)
}

// ErrNoTokenReader says that a backend can't tell the token of a lock's holder. It matches [errors.ErrUnsupported].
var ErrNoTokenReader = fmt.Errorf("%w here: the service doesn't know the tokens", errors.ErrUnsupported)

package driver

import (
	"context"

	"github.com/fencedlock/locker"
)

// TokenReader is implemented by a Driver whose service knows the tokens of the leases that exist. The
// token 0 is an answer of the service. A request that fails, or has no answer, returns its error.
type TokenReader interface {
	// CurrentToken returns the token of the lease that holds the lock called name, or that slot of
	// it if slot isn't 0, at some moment during the call, and 0 when no lease does. The engine asks
	// about a slot only if the driver declares [locker.FeatureSlots]. CurrentToken changes nothing
	// on the service. It returns when ctx ends, which may be a caller's context, or within limits of
	// the driver's own.
	CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error)
}

var _ locker.TokenReader = (*engine)(nil)

// CurrentToken asks the driver, if it is a TokenReader.
func (e *engine) CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error) {
	if err := e.wrongSubject(name, slot); err != nil {
		return 0, e.fail("read token", name, err)
	}
	r, ok := e.driver.(TokenReader)
	if !ok {
		return 0, e.fail("read token", name, locker.ErrNoTokenReader)
	}
	token, err := callOnce(ctx, e, func(ctx context.Context) (locker.Token, error) {
		return r.CurrentToken(ctx, name, slot)
	})
	if err != nil {
		return 0, e.fail("read token", name, err)
	}
	return token, nil
}

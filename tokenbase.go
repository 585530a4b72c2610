package locker

import (
	"context"
	"fmt"
	"math"
)

// maxTokenBase leaves the upper half of the range for the tokens of the service.
const maxTokenBase Token = 1 << 62

// TokenBase returns a locker whose tokens are l's plus base. It is for a program that changes its
// backend. A storage that has seen tokens of the old backend, microseconds since 1970 for example, would refuse
// the smaller tokens of the new backend without end. With a base above the highest token that was ever given
// out, the new tokens are larger. docs/migrating.md has the procedure. In a URL for [Open] it is the parameter
// token_base.
//
// All programs that share a lock must use the same base: tokens of different bases don't compare. A
// base that is negative or above 2^62 is refused with an error that matches [ErrOption]. Acquire
// refuses in the same way a lease whose token would be above the largest int64, and releases it.
// Everything else is as with l. Closing the result closes l.
func TokenBase(l Locker, base Token) (Locker, error) {
	if wrong := wrongBase(base); wrong != "" {
		return nil, &Error{Op: "open", Backend: l.Guarantees().Backend, Err: fmt.Errorf("%w: token base %s", ErrOption, wrong)}
	}
	return based{l, base}, nil
}

// wrongBase says what is wrong with a base, or nothing.
func wrongBase(base Token) string {
	if base < 0 || base > maxTokenBase {
		return fmt.Sprintf("%d: want from 0 to 2^62", base)
	}
	return ""
}

// based has no method Unwrap: what is found below it would give out tokens without the base; see [AsLocker].
type based struct {
	Locker
	base Token
}

func (b based) Acquire(ctx context.Context, name string, opts ...Option) (Lease, error) {
	lease, err := acquire(ctx, b.Locker, name, opts)
	if err != nil {
		return nil, err
	}
	if token := lease.Token(); token > math.MaxInt64-b.base {
		err := fmt.Errorf("%w: token %d plus the base %d is larger than an int64", ErrOption, token, b.base)
		return nil, &Error{Op: "acquire", Backend: b.Guarantees().Backend, Name: name, Err: join(err, lease.Release(ctx))}
	}
	return basedLease{lease, b.base}, nil
}

// CurrentToken adds the base to what the locker underneath returns.
func (b based) CurrentToken(ctx context.Context, name string, slot int) (Token, error) {
	token, err := CurrentToken(ctx, b.Locker, name, slot)
	if err == nil && token > math.MaxInt64-b.base { // of a program without the base
		err = &Error{Op: "read token", Backend: b.Guarantees().Backend, Name: name,
			Err: fmt.Errorf("%w: token %d plus the base %d is larger than an int64", ErrOption, token, b.base)}
	}
	return b.token(token), err
}

type basedLease struct {
	Lease
	base Token
}

func (l basedLease) Token() Token { return l.base + l.Lease.Token() }

// Unwrap leads [As] to the lease underneath.
func (l basedLease) Unwrap() any { return l.Lease }

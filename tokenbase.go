package locker

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strconv"
)

// maxTokenBase leaves as much room for the tokens of the service as it takes: 2^62.
const maxTokenBase Token = 1 << 62

// TokenBase returns a locker whose tokens are those of l plus base. It is for a program that changes its backend:
// storage that has seen tokens of the old one, microseconds since 1970 for example, would refuse the smaller ones
// of the new one for ever. With a base above the highest token that was ever given out, the new ones are larger.
// docs/migrating.md has the procedure. In a URL for [Open] it is the parameter token_base.
//
// All who share a lock must use the same base: tokens of different bases don't compare. A base that is negative or
// above 2^62 is refused with an error that matches [ErrOption]; so is, at Acquire, a lease whose token would be
// above the largest int64, which is released. Everything else is as with l; closing the result closes l.
func TokenBase(l Locker, base Token) (Locker, error) {
	if base < 0 || base > maxTokenBase {
		return nil, &Error{Op: "open", Backend: l.Guarantees().Backend, Err: fmt.Errorf("%w: token base %d is not from 0 to 2^62", ErrOption, base)}
	}
	return based{l, base}, nil
}

// based has no method Unwrap: what is found below it would give out tokens without the base; see [AsLocker].
type based struct {
	Locker
	base Token
}

func (b based) Acquire(ctx context.Context, name string, opts ...Option) (Lease, error) {
	lease, err := b.Locker.Acquire(ctx, name, opts...)
	if err != nil {
		return nil, err
	}
	if token := lease.Token(); token > math.MaxInt64-b.base {
		err := fmt.Errorf("%w: token %d and the base %d are too much for an int64", ErrOption, token, b.base)
		return nil, &Error{Op: "acquire", Backend: b.Guarantees().Backend, Name: name, Err: join(err, lease.Release(ctx))}
	}
	return basedLease{lease, b.base}, nil
}

// CurrentToken is that of l plus base.
func (b based) CurrentToken(ctx context.Context, name string) (Token, error) {
	token, err := CurrentToken(ctx, b.Locker, name)
	if token > 0 {
		token += b.base // which fits, or the lease would have been refused
	}
	return token, err
}

type basedLease struct {
	Lease
	base Token
}

func (l basedLease) Token() Token { return l.base + l.Lease.Token() }

// Unwrap leads [As] to the lease underneath.
func (l basedLease) Unwrap() any { return l.Lease }

// takeTokenBase takes the parameter that is the same on all backends out of a URL.
func takeTokenBase(u *url.URL) (*url.URL, Token, error) {
	const param = "token_base"
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || !query.Has(param) {
		return u, 0, nil // what can't be parsed is refused by the backend
	}
	base, err := strconv.ParseInt(query.Get(param), 10, 64)
	if err != nil || len(query[param]) > 1 {
		return nil, 0, fmt.Errorf("%w: URL: %s is one whole number", ErrOption, param)
	}
	query.Del(param)
	rest := *u
	rest.RawQuery = query.Encode()
	return &rest, Token(base), nil
}

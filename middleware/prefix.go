// Package middleware has decorators for lockers.
package middleware

import (
	"context"
	"iter"
	"strings"

	"github.com/fencedlock/locker"
)

// Prefix returns a locker whose locks are l's, with prefix before their names, so that several programs
// can share one service: lock "a" under prefix "billing/" is lock "billing/a" of l. No separator is added. So
// prefixes that end in a separator ("billing/") keep programs apart, and the prefixes "a" and "ab" don't.
//
// Prefix and name together must obey the rule of [locker.ValidName]. A bad prefix is refused here, with an error
// that matches [locker.ErrName]. Leases have the names that their callers asked for; errors show the whole name.
// Closing the result closes l.
func Prefix(l locker.Locker, prefix string) (locker.Locker, error) {
	if err := locker.ValidName(prefix); err != nil {
		return nil, &locker.Error{Op: "prefix", Backend: l.Guarantees().Backend, Err: err}
	}
	return prefixed{l, prefix}, nil
}

// prefixed has no method Unwrap: what is found below it would lock names without the prefix; see [locker.AsLocker].
type prefixed struct {
	locker.Locker
	prefix string
}

func (p prefixed) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	if err := locker.ValidName(name); err != nil { // the empty name is invalid under a prefix, too
		return nil, &locker.Error{Op: "acquire", Backend: p.Guarantees().Backend, Name: name, Err: err}
	}
	lease, err := p.Locker.Acquire(ctx, p.prefix+name, opts...)
	if err != nil || lease == nil { // a faulty Locker returns neither
		return nil, err
	}
	return prefixedLease{lease, name}, nil
}

func (p prefixed) CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error) {
	if err := locker.ValidName(name); err != nil {
		return 0, &locker.Error{Op: "read token", Backend: p.Guarantees().Backend, Name: name, Err: err}
	}
	return locker.CurrentToken(ctx, p.Locker, p.prefix+name, slot)
}

// Inspect asks about the lock below the prefix. The Status has the name that was asked for.
func (p prefixed) Inspect(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
	if err := locker.ValidName(name); err != nil {
		return locker.Status{}, &locker.Error{Op: "inspect", Backend: p.Guarantees().Backend, Name: name, Err: err}
	}
	s, err := locker.Inspect(ctx, p.Locker, p.prefix+name, look)
	s.Name = strings.TrimPrefix(s.Name, p.prefix)
	return s, err
}

// List lists the locks below the prefix. It leaves out a lock that has the prefix as its name: no
// name below the prefix is empty.
func (p prefixed) List(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
	return func(yield func(locker.Status, error) bool) {
		for s, err := range locker.List(ctx, p.Locker, p.prefix+prefix, waiters) {
			name, below := strings.CutPrefix(s.Name, p.prefix)
			if err == nil && (!below || name == "") {
				continue
			}
			s.Name = name
			if !yield(s, err) {
				return
			}
		}
	}
}

// Break takes away the lock below the prefix.
func (p prefixed) Break(ctx context.Context, name string, token locker.Token, b locker.Breach) (locker.Effect, error) {
	if err := locker.ValidName(name); err != nil {
		return locker.Effect{}, &locker.Error{Op: "break", Backend: p.Guarantees().Backend, Name: name, Err: err}
	}
	return locker.Break(ctx, p.Locker, p.prefix+name, token, b)
}

type prefixedLease struct {
	locker.Lease
	name string
}

func (l prefixedLease) Name() string { return l.name }

// Unwrap leads [locker.As] to the lease underneath.
func (l prefixedLease) Unwrap() any { return l.Lease }

package fence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/leasectx"
)

var (
	// ErrNoLease says that a token was looked for in a context without a lease for the resource: it
	// comes neither from [locker.Do] nor from [locker.WithLease], or from a permit of another slot.
	ErrNoLease = errors.New("the context has no lease")

	// ErrAmbiguousLease says that a context has the leases of several locks, and it isn't known
	// which of them guards the resource. Claim with the token of the right one.
	ErrAmbiguousLease = errors.New("the context has several leases")
)

// TokenFrom returns the token of the lease in ctx (see [locker.WithLease]) that guards a resource,
// so that a function deep below [locker.Do] can claim without a further parameter. The functions
// called ClaimFrom in the packages below this one find their token with it.
//
// Where locks are nested, ctx has several leases, whose tokens don't compare: a claim with the
// token of another lock could shut out the right holders for good. So the lease is chosen like
// this:
//
//  1. the lease whose Name is resource. A permit ([locker.AcquirePermit]) is the lease for its name
//     with its slot, such as worker/3. A resource that is called otherwise must have the slot in its
//     name too, because the tokens of two slots don't compare: worker/3/data is slot 3's;
//  2. where there is no such lease, the lease of ctx, if it is the only one. But a permit is taken
//     neither for its name without a slot, which others have permits of, nor for another slot
//     and what is below it, such as worker/2/data;
//  3. otherwise the error matches [ErrAmbiguousLease]. It does too when several leases have the
//     name of the resource and different tokens: they are leases of different lockers.
//
// Name and Token are the ones that the program sees. If [locker.TokenBase] and the prefix of package
// middleware are around the locker, that is the name without the prefix, and the token with the base.
//
// Without a lease in ctx, or with such a permit alone, the error matches [ErrNoLease]. When the
// lease has ended, the error is its Err, which matches [locker.ErrLost] or [locker.ErrReleased].
func TokenFrom(ctx context.Context, resource string) (locker.Token, error) {
	lease, err := leaseFor(ctx, resource)
	if err == nil {
		err = lease.Err()
	}
	if err != nil {
		return 0, fmt.Errorf("fence: token for %q: %w", resource, err)
	}
	return lease.Token(), nil
}

func leaseFor(ctx context.Context, resource string) (locker.Lease, error) {
	all := leasectx.All[locker.Lease](ctx)
	if len(all) == 0 {
		return nil, ErrNoLease
	}
	named := slices.DeleteFunc(slices.Clone(all), func(l locker.Lease) bool { return nameOf(l) != resource })
	switch {
	case len(named) > 0 && same(named):
		return named[0], nil
	case len(named) > 0:
		return nil, fmt.Errorf("%w called %q, of different lockers, or of one that has ended; claim with the token of the right one", ErrAmbiguousLease, resource)
	case same(all) && !isOfOthers(all[0], resource):
		return all[0], nil
	case same(all):
		return nil, fmt.Errorf("%w for that: it has a permit, which is for %q", ErrNoLease, nameOf(all[0]))
	}
	names := make([]string, len(all))
	for i, l := range all {
		names[i] = strconv.Quote(nameOf(l))
	}
	return nil, fmt.Errorf("%w (%s), and none has the name of the resource; claim with the token of the right one",
		ErrAmbiguousLease, strings.Join(names, ", "))
}

// nameOf is the resource that a lease is for, if nothing else is said.
func nameOf(l locker.Lease) string {
	if slot := locker.Slot(l); slot > 0 {
		return l.Name() + "/" + strconv.Itoa(slot)
	}
	return l.Name()
}

// isOfOthers reports whether l is a permit, and resource the name of its lock, of another slot, or of
// something below that slot.
func isOfOthers(l locker.Lease, resource string) bool {
	rest, below := strings.CutPrefix(resource, l.Name())
	if locker.Slot(l) == 0 || !below {
		return false
	}
	rest, below = strings.CutPrefix(rest, "/")
	if !below {
		return rest == ""
	}
	number, _, _ := strings.Cut(rest, "/")
	_, err := strconv.Atoi(number)
	return err == nil && number != strconv.Itoa(locker.Slot(l))
}

// same tells whether leases are one and the same: a context may have a lease twice. Leases need not
// be comparable, but no two of one lock or slot have the same token.
func same(leases []locker.Lease) bool {
	first := leases[0]
	return !slices.ContainsFunc(leases, func(l locker.Lease) bool {
		return nameOf(l) != nameOf(first) || l.Token() != first.Token()
	})
}

package conformance_test

import (
	"context"
	"fmt"

	"github.com/fencedlock/locker"
)

// permitSabotages are bugs that only permits, several locks or re-entrancy show.
func permitSabotages() []sabotage {
	return []sabotage{
		{bug: "permit: slot given twice", harness: toyHarness(flaws{slotTwice: true}, plain), named: "P1", others: "P2 P3 P4 P7 P13", perhaps: "P5 P6 P12"},
		{bug: "permit: a counter that leaks", harness: toyHarness(flaws{leaksSlots: true}, plain), named: "P3", others: "P4"},
		{bug: "permit: asks first who has it", harness: memHarness(onAcquire(askFirst)), named: "P11"},
		{bug: "permit: slots are names", harness: memHarness(onAcquire(slotsAsNames)), named: "P8", others: "P10 P13"},
		{bug: "permit: each Locker counts its own tokens", harness: memHarness(ownTokens), named: "P12", others: "P4"},
		{bug: "permit: Break takes the lock of the name", harness: memHarness(onBreak(breakOfTheName)), named: "P13"},
	}
}

// askFirst looks who has the lock before it asks for a slot.
func askFirst(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	if req, err := locker.Resolve(name, opts...); err == nil && req.Slot > 0 {
		_, _ = locker.Inspect(ctx, l, name, 0)
	}
	return l.Acquire(ctx, name, opts...)
}

// ownTokens has the tokens of permits rise for each Locker, and not for each slot: a Locker that was
// opened later has larger ones.
func ownTokens() func(locker.Locker) locker.Locker {
	var opened locker.Token
	return func(l locker.Locker) locker.Locker {
		base := opened
		opened += 1_000_000
		return acquirer{forwards{l}, func(ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
			lease, err := l.Acquire(ctx, name, opts...)
			req, invalid := locker.Resolve(name, opts...)
			if err != nil || invalid != nil || req.Slot < 1 {
				return lease, err
			}
			return reread{lease, func() locker.Token { return base + lease.Token() }}, nil
		}}
	}
}

// breakOfTheName takes the slot of a breach for a detail.
func breakOfTheName(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	if b.Slot > 0 && b.Slot <= locker.MaxPermits {
		b.Slot = 0
	}
	return locker.Break(ctx, l, name, token, b)
}

// slotsAsNames maps slots to locks of other names.
func slotsAsNames(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	req, err := locker.Resolve(name, opts...)
	if err != nil || req.Slot == 0 {
		return l.Acquire(ctx, name, opts...)
	}
	lease, err := l.Acquire(ctx, fmt.Sprintf("%s/%d", name, req.Slot), append(opts, func(r *locker.Request) { r.Slot, r.Features = 0, r.Features&^locker.FeatureSlots })...)
	if err != nil {
		return nil, err
	}
	return named{lease, name}, nil
}

package conformance_test

import (
	"context"
	"fmt"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// permitSabotages are bugs that only permits, several locks or re-entrancy show.
func permitSabotages() []sabotage {
	return []sabotage{
		{bug: "permit: slot given twice", harness: toyHarness(flaws{slotTwice: true}, plain), named: "P1", others: "P2 P3 P4 P7 P8.1 P13 P14 S1 S3 S5", perhaps: "P5 P6 P12"},
		{bug: "permit: a counter that leaks", harness: toyHarness(flaws{leaksSlots: true}, plain), named: "P3", others: "P4 S3 S5"},
		{bug: "permit: asks first who has it", harness: memHarness(onAcquire(askFirst)), named: "P11"},
		{bug: "permit: slots are names", harness: memHarness(onAcquire(slotsAsNames)), named: "P8", others: "P1 P8.1 P10 P13 P14"},
		{bug: "permit: each Locker counts its own tokens", harness: memHarness(ownTokens), named: "P12", others: "P1 P4"},
		{bug: "permit: Break takes the lock of the name", harness: memHarness(onBreak(breakOfTheName)), named: "P13", others: "P8.1 P14"},
	}
}

// slotSabotages are right for the lock of a name, and wrong for its slots.
func slotSabotages() []sabotage {
	toy := func(f flaws) conformance.Harness { return toyHarness(f, plain) }
	return []sabotage{
		{bug: "slot: release without owner check", harness: toy(flaws{slotReleaseAny: true}), named: "S3", others: "S1"},
		{bug: "slot: renewal re-creates a lost slot", harness: toy(flaws{slotCreates: true}), named: "S2", perhaps: "P13"},
		{bug: "slot: late request after a release", harness: toy(flaws{slotForgetful: true}), named: "S4"},
		{bug: "slot: deadline from the reply's time", harness: toy(flaws{slotFromReply: true}), named: "S5", others: "S6"},
		{bug: "slot: answers to renewals are kept by name", harness: toy(flaws{slotByName: true}), named: "P14"},
		{bug: "slot: key of the name, # and the number", harness: toy(flaws{slotAfterHash: true}), named: "P8.1"},
		{bug: "slot: number in a byte", harness: toy(flaws{slotInByte: true}), named: "P8.1"},
		{bug: "slot: its token is the name's", harness: memHarness(tokenOfSlots), named: "P1"},
		{bug: "slot: its holder is the name's", harness: memHarness(holderOfSlots), named: "P1"},
		{bug: "slot: CurrentToken is the name's", harness: memHarness(tokensAt(toTheName)), named: "P1", others: "P8.1"},
		{bug: "slot: CurrentToken of the line is slot 1's", harness: memHarness(tokensAt(lineIsFirst)), named: "P1"},
		{bug: "slot: Inspect shows who has the name", harness: memHarness(looksAt(toTheName)), named: "P1", others: "P8.1 P10"},
		{bug: "slot: Inspect shows who has slot 1", harness: memHarness(looksAt(toFirst)), named: "P1", others: "P8.1 P10"},
		{bug: "slot: number in a byte, in Inspect", harness: memHarness(looksAt(slotInByte)), named: "P8.1"},
		{bug: "slot: number in a byte, in CurrentToken", harness: memHarness(tokensAt(slotInByte)), named: "P8.1"},
		{bug: "slot: number in a byte, in Break", harness: memHarness(onBreak(breakInByte)), named: "P8.1"},
		{bug: "slot: Inspect of the line shows slot 1", harness: memHarness(looksAt(lineIsFirst)), named: "P1", others: "P10"},
	}
}

// slotHolder is a Locker that takes the holder of a slot for the holder of the name.
type slotHolder struct {
	forwards
}

func (l slotHolder) CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error) {
	token, err := locker.CurrentToken(ctx, l.Locker, name, slot)
	if err != nil || slot != 0 || token != 0 {
		return token, err
	}
	if p := l.ofSlot(ctx, name); p != nil {
		return p.Token, nil
	}
	return 0, nil
}

// ofSlot is a holder of a slot of the name; nil: there is none.
func (l slotHolder) ofSlot(ctx context.Context, name string) *locker.Party {
	for _, s := range statuses(ctx, l.Locker, name, 0) {
		if s.Name == name && s.Slot > 0 && s.Holder != nil {
			return s.Holder
		}
	}
	return nil
}

func tokenOfSlots() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker { return slotHolder{forwards{l}} }
}

func holderOfSlots() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		return looker{forwards: forwards{l}, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
			s, err := locker.Inspect(ctx, l, name, look)
			if err == nil && look.Slot == 0 && s.Holder == nil {
				s.Holder = slotHolder{forwards{l}}.ofSlot(ctx, name)
			}
			return s, err
		}}
	}
}

// otherSlots is a Locker whose CurrentToken looks at another slot than the one that it was asked about.
type otherSlots struct {
	forwards
	slot func(int) int
}

func (l otherSlots) CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error) {
	return locker.CurrentToken(ctx, l.Locker, name, l.slot(slot))
}

func tokensAt(slot func(int) int) decorator {
	return func() func(locker.Locker) locker.Locker {
		return func(l locker.Locker) locker.Locker { return otherSlots{forwards{l}, slot} }
	}
}

// looksAt makes a decorator whose Inspect does the same.
func looksAt(slot func(int) int) decorator {
	return func() func(locker.Locker) locker.Locker {
		return func(l locker.Locker) locker.Locker {
			return looker{forwards: forwards{l}, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
				asked := look.Slot
				look.Slot = slot(asked)
				s, err := locker.Inspect(ctx, l, name, look)
				if err == nil {
					s.Slot = asked
				}
				return s, err
			}}
		}
	}
}

// toTheName leaves slots that can't be to those who refuse them.
func toTheName(slot int) int {
	if locker.ValidSlot(slot) != nil {
		return slot
	}
	return 0
}

func toFirst(slot int) int {
	if slot > 1 && slot <= locker.MaxPermits {
		return 1
	}
	return slot
}

func lineIsFirst(slot int) int {
	if slot == locker.LineSlot {
		return 1
	}
	return slot
}

// askFirst looks who has the lock before it asks for a slot.
func askFirst(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	if req, err := locker.Resolve(name, opts...); err == nil && req.Slot > 0 {
		_, _ = locker.Inspect(ctx, l, name, locker.Look{})
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

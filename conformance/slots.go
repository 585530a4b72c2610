package conformance

import (
	"context"
	"slices"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// slotCases run some cases of other groups once more, with a slot in place of the lock of the name:
// a driver may take another way for slots, and be wrong only there. Where a backend has no permits,
// they pass and say so.
var slotCases = []Case{
	{ID: "S1", Name: "dead-waiter-for-a-slot-is-passed-over", Run: onOneSlot(deadWaiter),
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "a process that died while it waited for a permit must not keep the permit from those " +
			"who wait, nor free what they have"},
	{ID: "S2", Name: "late-renewal-revives-no-slot", Run: onOneSlot(lateRenewal),
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "a renewal that comes after the release of a permit must not take the permit from " +
			"those who want one"},
	{ID: "S3", Name: "stale-clean-up-frees-no-slot", Run: onOneSlot(staleCleanUp),
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "what a former holder of a permit still sends must not free the permit of the next " +
			"holder: there would be one holder too many"},
	{ID: "S4", Name: "removal-stops-late-requests-for-a-slot", Run: onOneSlot(lateRequestAfterRemoval),
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "a request for a permit that was given up must not take one when it arrives late, " +
			"or the others have one less"},
	{ID: "S5", Name: "deadline-of-a-slot-counts-from-the-request", Run: onOneSlot(deadlineFromRequest),
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "when another gets a permit, the lease of its former holder must be over, or more are " +
			"inside than there are permits"},
	{ID: "S6", Name: "late-reply-shortens-the-lease-of-a-slot", Run: onOneSlot(lateReplyShortens),
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "where the service keeps a permit for longer than the TTL, a holder that counts from " +
			"the reply is found out only now and then"},
}

// onOneSlot makes a case of slot 1 of a case that is about the lock of a name.
func onOneSlot(run func(T, *Harness)) func(T, *Harness) {
	return func(t T, h *Harness) {
		if !hasPermits(t, h.OpenLocker(t)) {
			return
		}
		own := *h
		own.Open = func(t T) locker.Locker { return slotOf{h.Open(t), 1} }
		own.Linked = func(t T) (locker.Locker, Link) {
			l, link := h.Linked(t)
			return slotOf{l, 1}, link
		}
		own.Waiters = nil // it counts who waits for the lock of the name
		run(t, &own)
	}
}

// slotOf makes a Locker whose Acquire acquires one slot of each name, for steps.
type slotOf struct {
	locker.Locker
	slot int
}

func (s slotOf) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := s.Locker.Acquire(ctx, name, slices.Concat(opts, []locker.Option{onSlot(s.slot)})...)
	if err != nil || lease == nil { // without either, the caller says what is wrong
		return lease, err
	}
	return slotLease{lease, s.slot}, nil
}

// Unwrap is for functions such as StatsOf.
func (s slotOf) Unwrap() locker.Locker { return s.Locker }

// slotLease is a lease whose slot [locker.Slot] knows, also of the line.
type slotLease struct {
	locker.Lease
	slot int
}

func (l slotLease) Slot() int { return l.slot }

func (l slotLease) Unwrap() any { return l.Lease }

// slotsLiveApart holds the lock of a name and three of its slots in one Locker for some TTLs. Then
// one of the slots is broken. The lease of that slot alone may end.
func slotsLiveApart(t T, h *Harness) {
	const slots, broken = 4, 2
	l, other := h.OpenLocker(t), h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	var leases []locker.Lease
	for slot := range slots {
		leases = append(leases, step.Acquire(t, slotOf{l, slot}, name, h.ttl()...))
	}
	wantLive := func(except int) {
		t.Helper()
		for slot, lease := range leases {
			if slot != except {
				step.WantLive(t, lease, slotOf{other, slot})
			}
		}
	}
	step.Pass(t, 3*h.TTL) // a lease that isn't renewed is over by then
	wantLive(-1)
	if locker.BreakSeenAtRenewal.Check(h.guarantees) == nil {
		breakOneOf(t, h, other, leases, broken)
		wantLive(broken)
		leases = slices.Delete(leases, broken, broken+1)
	}
	for _, lease := range leases {
		step.Release(t, lease)
	}
}

// breakOneOf marks the lease of a slot, which must be lost before another Locker is granted the slot.
func breakOneOf(t T, h *Harness, other locker.Locker, leases []locker.Lease, slot int) {
	t.Helper()
	victim, b := leases[slot], someBreach(false)
	b.Slot = slot
	waitShown(t, h, other, victim)
	takeAway(t, h, other, victim, b)
	next := step.AcquireWithin(t, h.ExpiryLimit(), slotOf{other, slot}, victim.Name())
	if victim.Err() == nil { // it reads the clock; a timer may be late
		t.Fatalf("another has slot %d, which was taken away, and the Err of its former holder is nil", slot)
	}
	for i, lease := range leases {
		if i == slot {
			continue
		}
		if err := step.Renew(t, lease); err != nil {
			t.Errorf("slot %d was taken away, and Renew of slot %d = %v, want nil", slot, i, err)
		}
	}
	step.Release(t, next)
}

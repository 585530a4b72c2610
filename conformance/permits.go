package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Where a backend has no permits, these cases pass and say so: no guarantee promises them.
var permitCases = []Case{
	{ID: "P1", Name: "as-many-permits-as-asked-for", Run: permitsAreSlots,
		Why: "a limit on what runs at the same time must hold for all processes together, and " +
			"each holder needs a number that no other has"},
	{ID: "P2", Name: "released-permit-lets-one-in", Run: permitLetsOneIn,
		Why: "a permit that is given back must reach one of those who wait, and not two, in the " +
			"order that the backend keeps"},
	{ID: "P3", Name: "permits-of-killed-holders-come-back", Run: permitsOfTheKilled,
		Hooks: []Hook{HookProcess},
		Why: "where permits are a count, the permits of processes that died are gone, and one day there " +
			"are none left"},
	{ID: "P4", Name: "paused-holder-is-fenced-on-its-slot", Run: pausedOnItsSlot,
		Needs: all(locker.FencingUntilDataLoss, locker.RequireTTL), Hooks: []Hook{HookProcess},
		Why: "a holder that resumes too late must not write to what its slot's next holder has, " +
			"and holders of other slots must not be disturbed"},
	{ID: "P5", Name: "two-numbers-of-permits-at-the-same-time", Run: twoNumbers,
		Why: "while a new version is rolled out, old programs ask for three permits and new ones " +
			"for five; there must never be more than five"},
	{ID: "P6", Name: "cancel-racing-with-a-permit", Run: permitCancelRace,
		Why: "a slot, or a place in the line, that a caller gets when it has given up is lost to " +
			"everybody"},
	{ID: "P7", Name: "killed-in-the-line", Run: killedInLine, Hooks: []Hook{HookProcess},
		Why: "a process that dies as the first of those who wait must not keep all others from " +
			"the permits"},
	{ID: "P8", Name: "permits-are-apart-from-names", Run: permitsAreApart,
		Why: "a slot must not be the lock of a name that somebody else uses, and a permit must " +
			"not exclude the lock of its own name"},
	{ID: "P8.1", Name: "slots-are-no-names", Run: slotsAreNoNames,
		Why: "where a slot is the lock of a name that a program could choose, that program waits " +
			"for holders of permits that it knows nothing of"},
	{ID: "P9", Name: "invalid-slots-fail-before-io", Run: invalidSlots,
		Why: "a slot that can't be must be refused by every backend alike, before anything is " +
			"sent"},
	{ID: "P10", Name: "lists-show-slots", Run: listsShowSlots,
		Needs: locker.InspectionHolder,
		Why: "an operator must see who has permits and who waits for one, and must not take a " +
			"slot for another lock"},
	{ID: "P11", Name: "permit-that-is-free-costs-a-lock", Run: permitCosts, Hooks: []Hook{HookRequests},
		Why: "a limit that costs several times what a lock costs is a limit that nobody can " +
			"afford where it matters"},
	{ID: "P12", Name: "fenced-slots-are-linearizable", Run: permitsAreLinearizable,
		Needs: locker.FencingUntilDataLoss,
		Why: "a resource for each slot is safe only if the slot's holders follow each other with " +
			"rising tokens, also when some of them are cut off or go on too long"},
	{ID: "P13", Name: "break-of-a-permit", Run: breakOfPermit, Needs: locker.BreakSeenAtRenewal,
		Why: "an operator who takes one permit away must not end permits on other slots, nor the " +
			"lock of that name"},
	{ID: "P14", Name: "slots-of-one-locker-live-apart", Run: slotsLiveApart, Needs: locker.RequireTTL,
		Why: "a process may have several permits of one name; what it is told of one of them must " +
			"not keep another alive, nor end it"},
}

// hasPermits reports whether a backend has permits.
func hasPermits(t T, l locker.Locker) bool {
	t.Helper()
	lease, err := step.Try(t, l, step.LockName(t), onSlot(1))
	if errors.Is(err, errors.ErrUnsupported) {
		t.Logf("permits: %v", err)
		return false
	}
	if err != nil {
		t.Fatalf("TryAcquire of a slot = %v, want a lease", err)
	}
	step.Release(t, lease)
	return true
}

func onSlot(slot int) locker.Option { return func(r *locker.Request) { r.Slot = slot } }

// permitOf makes a Locker whose Acquire acquires permits, for steps.
type permitOf struct {
	locker.Locker
	n int
}

func (p permitOf) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	return locker.AcquirePermit(ctx, p.Locker, name, p.n, opts...)
}

// wantPermits fails the case unless n permits are free within d.
func wantPermits(t T, d time.Duration, l locker.Locker, name string, n int) {
	t.Helper()
	var leases []locker.Lease
	var slots []int
	for range n {
		lease := step.AcquireWithin(t, d, permitOf{l, n}, name)
		leases, slots = append(leases, lease), append(slots, locker.Slot(lease))
	}
	slices.Sort(slots)
	if slots[0] != 1 || slots[n-1] != n || len(slices.Compact(slots)) != n {
		t.Errorf("the slots of %d permits are %v, want each from 1 to %d once", n, slots, n)
	}
	for _, lease := range leases {
		step.Release(t, lease)
	}
}

func permitsAreSlots(t T, h *Harness) {
	const n = 5
	l, other := h.OpenLocker(t), h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	var leases []locker.Lease
	taken := make(map[int]bool)
	for i := range n {
		from := []locker.Locker{l, other}[i%2]
		lease, err := step.Try(t, permitOf{from, n}, name)
		if err != nil {
			t.Fatalf("TryAcquirePermit number %d of %d = %v, want a permit", i+1, n, err)
		}
		if slot := locker.Slot(lease); slot < 1 || slot > n || taken[slot] || lease.Name() != name {
			t.Fatalf("permit number %d is slot %d of %q, and %v are taken", i+1, slot, lease.Name(), taken)
		}
		taken[locker.Slot(lease)] = true
		leases = append(leases, lease)
	}
	for _, from := range []locker.Locker{l, other} {
		step.WantHeld(t, permitOf{from, n}, name)
		for _, lease := range leases {
			if extra, err := step.Try(t, from, name, onSlot(locker.Slot(lease))); !errors.Is(err, locker.ErrHeld) {
				t.Errorf("TryAcquire of a slot that is held = %v, %v, want ErrHeld", extra, err)
			}
		}
	}
	wantLooks(t, h, other, name, leases)
	for _, lease := range leases {
		if err := lease.Err(); err != nil {
			t.Errorf("Err of a permit = %v, want nil", err)
		}
		if err := step.Renew(t, lease); err != nil {
			t.Errorf("Renew of a permit = %v, want nil", err)
		}
	}
	last := leases[n-1]
	step.Release(t, last)
	wantNobody(t, h, other, name, locker.Slot(last), "after the release of that permit")
	again := step.AcquireWithin(t, h.Slack, permitOf{other, n}, name)
	if got, want := locker.Slot(again), locker.Slot(last); got != want {
		t.Errorf("the permit that is free is slot %d, want %d", got, want)
	}
	if h.guarantees.Fencing >= locker.FencingUntilDataLoss {
		step.WantRising(t, last.Token(), again.Token())
	}
	for _, lease := range append(leases[:n-1], again) {
		step.Release(t, lease)
	}
	h.WaitNoResidue(t)
}

func permitLetsOneIn(t T, h *Harness) {
	const n, waiting = 2, 4
	l := h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	held := []locker.Lease{step.Acquire(t, permitOf{l, n}, name), step.Acquire(t, permitOf{l, n}, name)}
	var waiters []*step.Attempt
	for range waiting {
		waiters = append(waiters, step.StartAcquire(t, permitOf{h.OpenLocker(t), n}, name))
		h.waitInLine(t, l, name, len(waiters)) // before the next one comes
	}
	for range waiting {
		for _, w := range waiters {
			w.WantPending(t)
		}
		step.Release(t, held[0])
		first := step.FirstGranted(t, h.HandOffLimit()+time.Second, waiters)
		if first != 0 && h.guarantees.Order >= locker.OrderFIFO {
			t.Errorf("waiter %d of %d gets the permit, want the first in the line", first+1, len(waiters))
		}
		next := waiters[first].Lease
		if locker.Slot(next) != locker.Slot(held[0]) {
			t.Errorf("the permit is slot %d, want %d, which was released", locker.Slot(next), locker.Slot(held[0]))
		}
		waiters = slices.Delete(waiters, first, first+1)
		step.Pass(t, h.Settle) // nobody else may get in
		held = append(held[1:], next)
	}
	for _, lease := range held {
		step.Release(t, lease)
	}
	wantPermits(t, h.RemovalLimit(), l, name, n)
	h.WaitNoResidue(t)
}

func permitsAreApart(t T, h *Harness) {
	const n = 2
	l, other := h.OpenLocker(t), h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	names := []string{name, name + "1", name + "/1", name + ":slot:1", name + "}:slot:1", name + "%s1", name + ".1", name + "\\n1", name + ":1", name + "/line"}
	permits := []string{name, name + "1", name + "%"}
	var leases []locker.Lease
	for _, name := range names {
		leases = append(leases, step.Acquire(t, l, name))
	}
	for _, name := range permits {
		for range n {
			lease, err := step.Try(t, permitOf{other, n}, name)
			if err != nil {
				t.Fatalf("TryAcquirePermit(%q) = %v, want a permit: only locks of other names, and permits of others, are held", name, err)
			}
			leases = append(leases, lease)
		}
		line, err := step.Try(t, l, name, onSlot(locker.LineSlot))
		if err != nil {
			t.Fatalf("TryAcquire of the line of %q = %v, want a lease", name, err)
		}
		leases = append(leases, line)
	}
	for _, lease := range leases {
		step.Release(t, lease)
	}
	h.WaitNoResidue(t)
}

func invalidSlots(t T, h *Harness) {
	l := h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	before := h.requestsAtRest(t)
	for _, slot := range []int{-2, locker.MaxPermits + 1, -1 << 62} {
		if lease, err := step.Try(t, l, name, onSlot(slot)); !errors.Is(err, locker.ErrOption) {
			t.Errorf("Acquire of slot %d = %v, %v, want ErrOption", slot, lease, err)
		}
		if _, err := locker.Inspect(t.Context(), l, name, locker.Look{Slot: slot}); !errors.Is(err, locker.ErrOption) && !errors.Is(err, locker.ErrNoInspector) {
			t.Errorf("Inspect of slot %d = %v, want ErrOption", slot, err)
		}
		if _, err := locker.CurrentToken(t.Context(), l, name, slot); !errors.Is(err, locker.ErrOption) && !errors.Is(err, locker.ErrNoTokenReader) {
			t.Errorf("CurrentToken of slot %d = %v, want ErrOption", slot, err)
		}
	}
	if n := h.requestsAtRest(t) - before; n != 0 {
		t.Errorf("slots that are refused cost %d requests, want none", n)
	}
}

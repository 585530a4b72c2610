package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Cases about the keys of slots: a slot is neither the lock of a name nor another slot.

// slotsAreNoNames asks for the names that a driver could make of a name and a slot.
func slotsAreNoNames(t T, h *Harness) {
	l, other := h.OpenLocker(t), h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	var leases []locker.Lease
	for _, slot := range []int{0, 1, 2, locker.LineSlot} {
		leases = append(leases, step.Acquire(t, slotOf{l, slot}, name))
	}
	wantAllFree(t, other, likeSlotsOf(name))
	slotsAreNumbers(t, l, other)
	questionsOfNumbers(t, h, l, other)
	for _, lease := range leases {
		step.Release(t, lease)
	}
	h.WaitNoResidue(t)
}

// likeSlotsOf returns a name for each separator that a key of a slot could have, and each end.
func likeSlotsOf(name string) (like []string) {
	for sep := ' '; sep <= '~'; sep++ {
		s := string(sep)
		for _, end := range []string{"1", "line", "slot1", "slot" + s + "1", "permit" + s + "1"} {
			like = append(like, name+s+end)
		}
	}
	return like
}

// wantAllFree acquires each of the locks and releases it, several at a time, because they are many.
func wantAllFree(t T, l locker.Locker, names []string) {
	t.Helper()
	const sideBySide = 8
	var next atomic.Int64
	step.Contend(t, sideBySide, len(names)/sideBySide+1, func(ctx context.Context, _ int) error {
		i := int(next.Add(1)) - 1
		if i >= len(names) {
			return nil
		}
		lease, err := tryInBackground(ctx, l, names[i])
		if err != nil {
			return fmt.Errorf("while only slots of another name are held, TryAcquire(%q): %w", names[i], err)
		}
		return lease.Release(ctx)
	})
}

// slotsAreNumbers holds a slot with a small number, and asks for slots whose numbers end like it
// where a byte or some digits are kept. The name is of the maximal length, and another one differs
// in the last byte.
func slotsAreNumbers(t T, l, other locker.Locker) {
	t.Helper()
	name := step.LockName(t)
	name += strings.Repeat("x", locker.MaxName-len(name))
	lease := step.Acquire(t, slotOf{l, 1}, name)
	for _, slot := range []int{0, 2, 11, 129, 257, 513, 769, locker.MaxPermits, locker.LineSlot} {
		step.WantFree(t, slotOf{other, slot}, name)
	}
	step.WantFree(t, slotOf{other, 1}, name[:len(name)-1]+"y")
	step.WantLive(t, lease, slotOf{other, 1})
	step.Release(t, lease)
}

// questionsOfNumbers holds slots whose numbers end like 1 where a byte is kept, and the last slot.
// Inspect, CurrentToken and Break must know each of them by its whole number.
func questionsOfNumbers(t T, h *Harness, l, other locker.Locker) {
	t.Helper()
	name := step.LockName(t)
	var leases []locker.Lease
	for _, slot := range []int{1, 257, 769, locker.MaxPermits} {
		leases = append(leases, step.Acquire(t, slotOf{l, slot}, name, h.longTTL()...))
	}
	for _, lease := range leases {
		wantOnSlot(t, h, other, lease)
	}
	for _, slot := range []int{513, locker.MaxPermits - 1} {
		wantNobody(t, h, other, name, slot, "while other slots are held")
	}
	for i, lease := range leases {
		if locker.BreakSeenAtRenewal.Check(h.guarantees) != nil {
			step.Release(t, lease)
			continue
		}
		b := someBreach(false)
		b.Slot = locker.Slot(lease)
		waitShown(t, h, other, lease)
		takeAway(t, h, other, lease, b)
		wantBroken(t, h, lease, b)
		for _, next := range leases[i+1:] {
			if err := step.Renew(t, next); errors.Is(err, locker.ErrLost) { // it may have no answer in time
				t.Errorf("slot %d is taken away, and Renew of slot %d = %v, want nil", b.Slot, locker.Slot(next), err)
			}
		}
	}
}

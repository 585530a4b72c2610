package conformance

import (
	"errors"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// What P1 asks about permits while they are held.

// wantLooks fails the case unless the service says of each permit that its slot is held by it, and that
// nobody has the lock called name, the line, or another slot. The line is held for a moment as well.
func wantLooks(t T, h *Harness, l locker.Locker, name string, permits []locker.Lease) {
	t.Helper()
	for _, slot := range []int{0, locker.LineSlot, len(permits) + 1} {
		wantNobody(t, h, l, name, slot, "while only the slots of permits are held")
	}
	line := step.Acquire(t, slotOf{l, locker.LineSlot}, name)
	for _, lease := range append(permits[:len(permits):len(permits)], line) {
		wantOnSlot(t, h, l, lease)
	}
	step.Release(t, line)
	wantNobody(t, h, l, name, locker.LineSlot, "after the release of the line")
}

// wantNobody fails the case unless the service says that nobody has the lock called name (slot 0), or that
// slot of it.
func wantNobody(t T, h *Harness, l locker.Locker, name string, slot int, when string) {
	t.Helper()
	wantCurrent(t, l, name, slot, 0, when)
	if locker.InspectionHolder.Check(h.guarantees) == nil {
		wantFreeSlot(t, l, name, slot, when)
	}
}

// wantOnSlot fails the case unless the service says that the lease holds its slot.
func wantOnSlot(t T, h *Harness, l locker.Locker, lease locker.Lease) {
	t.Helper()
	wantCurrent(t, l, lease.Name(), locker.Slot(lease), lease.Token(), "while it is held")
	if locker.InspectionHolder.Check(h.guarantees) == nil {
		wantHolder(t, l, lease)
	}
}

// wantCurrent fails the case unless the service knows no tokens, or says that this one has the slot.
func wantCurrent(t T, l locker.Locker, name string, slot int, want locker.Token, when string) {
	t.Helper()
	if token, err := locker.CurrentToken(t.Context(), l, name, slot); token != want && err == nil || err != nil && !errors.Is(err, locker.ErrNoTokenReader) {
		t.Errorf("%s, CurrentToken of slot %d = %v, %v, want %v", when, slot, token, err, want)
	}
}

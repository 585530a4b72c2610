package conformance

import (
	"context"
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// slotRegisters is the model of permits: each slot has a fenced register. Its history shows one
// holder after another, so there are never more holders than slots.
var slotRegisters = porcupine.Model{
	Partition: func(history []porcupine.Operation) (slots [][]porcupine.Operation) {
		bySlot := make(map[any][]porcupine.Operation)
		for _, op := range history {
			bySlot[op.Input] = append(bySlot[op.Input], op)
		}
		for _, slot := range bySlot {
			slots = append(slots, slot)
		}
		return slots
	},
	Init: fencedRegister.Init,
	Step: fencedRegister.Step,
}

// permitsAreLinearizable has clients increment one number for each slot.
func permitsAreLinearizable(t T, h *Harness) {
	const n = 3
	if !hasPermits(t, h.OpenLocker(t)) {
		return
	}
	name := step.LockName(t)
	var registers [n + 1]fence
	h.wantLinearizable(t, slotRegisters, func(ctx context.Context, l locker.Locker) (any, increment, error) {
		slot := 0
		section, err := h.section(ctx, permitOf{l, n}, name, func(lease locker.Lease) *fence {
			if slot = locker.Slot(lease); slot < 1 || slot > n {
				slot = 0
			}
			return &registers[slot]
		})
		if err == nil && slot == 0 {
			err = fmt.Errorf("%w: one of %d permits has no slot from 1 to %d", errRefused, n, n)
		}
		return slot, section, err
	})
}

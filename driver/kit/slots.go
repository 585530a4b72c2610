package kit

import (
	"strconv"

	"github.com/fencedlock/locker"
)

// A backend makes a slot's key of the key of its name and of this text, so that no name has that
// key: see [locker.Request].

// line is the text of [locker.LineSlot].
const line = "line"

// SlotText is a slot as it is written in keys: "line", or its number in decimal digits. It is empty
// for the lock itself.
func SlotText(slot int) string {
	switch slot {
	case 0:
		return ""
	case locker.LineSlot:
		return line
	}
	return strconv.Itoa(slot)
}

// ParseSlot reads what SlotText has written for a slot. ok is false for any other text.
func ParseSlot(text string) (slot int, ok bool) {
	if text == line {
		return locker.LineSlot, true
	}
	slot, err := strconv.Atoi(text)
	return slot, err == nil && slot >= 1 && slot <= locker.MaxPermits && strconv.Itoa(slot) == text
}

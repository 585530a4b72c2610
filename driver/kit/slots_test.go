package kit_test

import (
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

func TestSlotText(t *testing.T) {
	seen := make(map[string]bool)
	for slot := locker.LineSlot; slot <= locker.MaxPermits; slot++ {
		text := kit.SlotText(slot)
		if seen[text] {
			t.Errorf("%q is the text of two slots", text)
		}
		seen[text] = true
		if got, ok := kit.ParseSlot(text); slot != 0 && (got != slot || !ok) {
			t.Errorf("ParseSlot(%q) = %d, %v, want %d", text, got, ok, slot)
		}
	}
	for slot, want := range map[int]string{0: "", locker.LineSlot: "line", 1: "1", 1000: "1000"} {
		if got := kit.SlotText(slot); got != want {
			t.Errorf("SlotText(%d) = %q, want %q: other versions have written that", slot, got, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "+1", "01", "1001", " 1", "1 ", "lines", "LINE", "99999999999999999999"} {
		if slot, ok := kit.ParseSlot(text); ok {
			t.Errorf("ParseSlot(%q) = %d, want none: no slot is written so", text, slot)
		}
	}
}

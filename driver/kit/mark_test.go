package kit_test

import (
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

func TestMarked(t *testing.T) {
	label := driver.Label{Holder: "!web-7f9c/4711/reportd", Asked: time.UnixMilli(5)}.String()
	for _, want := range []locker.Breach{
		{By: "bob@ops-1", Reason: "hangs!", At: time.UnixMilli(1795370723000).UTC()},
		{By: "bob", AtOnce: true},
		{},
	} {
		got, breach := kit.ReadMarked(kit.Marked(want, label))
		if got != label || breach == nil || *breach != want {
			t.Errorf("ReadMarked = %q, %+v; want %q, %+v", got, breach, label, want)
		}
	}
	for _, value := range []string{"", "-", label} {
		if got, breach := kit.ReadMarked(value); got != value || breach != nil {
			t.Errorf("ReadMarked(%q) = %q, %+v; want no mark", value, got, breach)
		}
	}
	for _, value := range []string{"!", "!\n", "!by hand", "!\x00\n\n"} { // a mark that can't be read is a mark all the same
		if _, breach := kit.ReadMarked(value); breach == nil {
			t.Errorf("ReadMarked(%q) has no mark", value)
		}
	}
}

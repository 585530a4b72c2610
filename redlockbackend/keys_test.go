package redlockbackend_test

import (
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redlockbackend"
)

// The mapping must never change, because two versions may run at the same time.
func TestKeysGolden(t *testing.T) {
	for name, want := range map[string]string{
		"a":                      "redlock:{a}",
		"A":                      "redlock:{A}",
		"a/b":                    "redlock:{a/b}",
		"a:token":                "redlock:{a:token}",
		"{a}b":                   "redlock:{%7Ba%7Db}",
		"}":                      "redlock:{%7D}",
		"%7D":                    "redlock:{%257D}",
		"memory":                 "redlock:{memory}",
		"é":                      "redlock:{é}",
		strings.Repeat("z", 200): "redlock:{" + strings.Repeat("z", 200) + "}",
	} {
		if got := redlockbackend.LockKey("redlock:", name, 0); got != want {
			t.Errorf("the key of %q is %q, want %q", name, got, want)
		}
	}
	for slot, want := range map[int]string{3: "redlock:{a}:slot:3", locker.LineSlot: "redlock:{a}:slot:line"} {
		if got := redlockbackend.LockKey("redlock:", "a", slot); got != want {
			t.Errorf("the key of slot %d of a is %q, want %q", slot, got, want)
		}
	}
	if got := redlockbackend.MemoryKey("redlock:"); got != "redlock:memory" {
		t.Errorf("the key of the memory is %q", got)
	}
}

// What the scripts append to the key of a lock doesn't make it the key of another lock.
func FuzzKeys(f *testing.F) {
	f.Add("a", 0, "A", 0)
	f.Add("{a}b", 0, "a", 0)
	f.Add("a}", 0, "a}:token", 0)
	f.Add("a}:tomb:", 0, "a", 0)
	f.Add("a}:slot:3", 0, "a", 3)
	f.Add("a", -1, "a", 1)
	f.Fuzz(func(t *testing.T, a string, slotA int, b string, slotB int) {
		slotA, slotB = slotA%(locker.MaxPermits+1), slotB%(locker.MaxPermits+1)
		if locker.ValidName(a) != nil || locker.ValidName(b) != nil || a == b && slotA == slotB || slotA < locker.LineSlot || slotB < locker.LineSlot {
			t.Skip()
		}
		one, other := redlockbackend.LockKey("p:", a, slotA), redlockbackend.LockKey("p:", b, slotB)
		for _, suffix := range []string{"", ":token", ":waiters", ":tomb:0f"} {
			if one+suffix == other {
				t.Errorf("%q and %q share the key %q", a, b, other)
			}
		}
		if one == redlockbackend.MemoryKey("p:") {
			t.Errorf("the key of %q is that of the memory", a)
		}
	})
}

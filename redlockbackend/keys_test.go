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
		if got := redlockbackend.LockKey("redlock:", name); got != want {
			t.Errorf("the key of %q is %q, want %q", name, got, want)
		}
	}
	if got := redlockbackend.MemoryKey("redlock:"); got != "redlock:memory" {
		t.Errorf("the key of the memory is %q", got)
	}
}

// What the scripts append to the key of a lock doesn't make it the key of another lock.
func FuzzKeys(f *testing.F) {
	f.Add("a", "A")
	f.Add("{a}b", "a")
	f.Add("a}", "a}:token")
	f.Add("a}:tomb:", "a")
	f.Fuzz(func(t *testing.T, a, b string) {
		if locker.ValidName(a) != nil || locker.ValidName(b) != nil || a == b {
			t.Skip()
		}
		one, other := redlockbackend.LockKey("p:", a), redlockbackend.LockKey("p:", b)
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

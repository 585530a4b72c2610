package redisbackend_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redisbackend"
)

// The mapping must never change, because two versions may run at the same time.
func TestKeysGolden(t *testing.T) {
	for name, want := range map[string]string{
		"a":                      "locker:{a}",
		"A":                      "locker:{A}",
		"a/b":                    "locker:{a/b}",
		"invoices/2026-11":       "locker:{invoices/2026-11}",
		" ":                      "locker:{ }",
		"a:token":                "locker:{a:token}",
		"{a}b":                   "locker:{%7Ba%7Db}",
		"{}a":                    "locker:{%7B%7Da}",
		"}":                      "locker:{%7D}",
		"%7D":                    "locker:{%257D}",
		"%":                      "locker:{%25}",
		"é":                      "locker:{é}",
		"*[a-z]?":                "locker:{*[a-z]?}",
		strings.Repeat("z", 200): "locker:{" + strings.Repeat("z", 200) + "}",
	} {
		if got := redisbackend.LockKey("locker:", name, 0); got != want {
			t.Errorf("the key of %q is %q, want %q", name, got, want)
		}
	}
	for slot, want := range map[int]string{3: "locker:{a}:slot:3", locker.LineSlot: "locker:{a}:slot:line"} {
		if got := redisbackend.LockKey("locker:", "a", slot); got != want {
			t.Errorf("the key of slot %d of a is %q, want %q", slot, got, want)
		}
	}
	want := []string{"p{a}", "p{a}:token", "p{a}:queue", "p{a}:waiters", "p{a}:tomb:0f"}
	if got := redisbackend.KeysOf("p{a}", "0f"); !slices.Equal(got[:], want) {
		t.Errorf("the keys of a lock are %q, want %q", got, want)
	}
}

// hashTag is what decides in a Cluster on which server a key is: Redis Cluster Specification, "Hash
// tags".
func hashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

func FuzzKeys(f *testing.F) {
	f.Add("a", 0, "A", 0)
	f.Add("{a}b", 0, "a", 0)
	f.Add("%7B", 0, "{", 0)
	f.Add("a}", 0, "a}:token", 0)
	f.Add("a}:tomb:", 0, "a", 0)
	f.Add("a", 1, "a", 10)
	f.Add("a}:slot:3", 0, "a", 3)
	f.Add("a:slot:line", 0, "a", -1)
	f.Fuzz(func(t *testing.T, a string, slotA int, b string, slotB int) {
		slotA, slotB = slotA%(locker.MaxPermits+1), slotB%(locker.MaxPermits+1)
		if locker.ValidName(a) != nil || locker.ValidName(b) != nil || slotA < locker.LineSlot || slotB < locker.LineSlot {
			t.Skip()
		}
		keysA := redisbackend.KeysOf(redisbackend.LockKey("locker:", a, slotA), "0f")
		keysB := redisbackend.KeysOf(redisbackend.LockKey("locker:", b, slotB), "0f")
		for i, key := range keysA {
			if tag := hashTag(key); tag != hashTag(keysA[0]) || strings.ContainsAny(tag, "{}") {
				t.Errorf("key %q of %q has the hash tag %q", key, a, tag)
			}
			if j := slices.Index(keysB[:], key); (a == b && slotA == slotB) != (j == i) {
				t.Errorf("key %q of %q is key %d of %q", key, a, j, b)
			}
		}
		if name, err := url.PathUnescape(hashTag(keysA[0])); err != nil || name != a {
			t.Errorf("the name that is read from %q is %q, %v, want %q", keysA[0], name, err, a)
		}
	})
}

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
		if got := redisbackend.LockKey("locker:", name); got != want {
			t.Errorf("the key of %q is %q, want %q", name, got, want)
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
	f.Add("a", "A")
	f.Add("{a}b", "a")
	f.Add("%7B", "{")
	f.Add("a}", "a}:token")
	f.Add("a}:tomb:", "a")
	f.Fuzz(func(t *testing.T, a, b string) {
		if locker.ValidName(a) != nil || locker.ValidName(b) != nil {
			t.Skip()
		}
		keysA := redisbackend.KeysOf(redisbackend.LockKey("locker:", a), "0f")
		keysB := redisbackend.KeysOf(redisbackend.LockKey("locker:", b), "0f")
		for i, key := range keysA {
			if tag := hashTag(key); tag != hashTag(keysA[0]) || strings.ContainsAny(tag, "{}") {
				t.Errorf("key %q of %q has the hash tag %q", key, a, tag)
			}
			if j := slices.Index(keysB[:], key); (a == b) != (j == i) {
				t.Errorf("key %q of %q is key %d of %q", key, a, j, b)
			}
		}
		if name, err := url.PathUnescape(hashTag(keysA[0])); err != nil || name != a {
			t.Errorf("the name that is read from %q is %q, %v, want %q", keysA[0], name, err, a)
		}
	})
}

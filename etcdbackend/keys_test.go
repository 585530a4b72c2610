package etcdbackend_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
)

// The mapping may never change: two versions that run side by side must agree.
func TestKeysGolden(t *testing.T) {
	for name, want := range map[string]string{
		"a":                      "locker/a/",
		"A":                      "locker/A/",
		"a/b":                    "locker/a%2Fb/",
		"/":                      "locker/%2F/",
		"//a":                    "locker/%2F%2Fa/",
		"invoices/2026-11":       "locker/invoices%2F2026-11/",
		" ":                      "locker/ /",
		"%":                      "locker/%25/",
		"%2F":                    "locker/%252F/",
		"%guard":                 "locker/%25guard/",
		"..":                     "locker/../",
		"é":                      "locker/é/",
		"*[a-z]?":                "locker/*[a-z]?/",
		strings.Repeat("z", 200): "locker/" + strings.Repeat("z", 200) + "/",
	} {
		if got := etcdbackend.DirOf("locker/", name, 0); got != want {
			t.Errorf("the keys of %q begin with %q, want %q", name, got, want)
		}
	}
	for slot, want := range map[int]string{3: "locker/a%252Fb%s3/", 1000: "locker/a%252Fb%s1000/", locker.LineSlot: "locker/a%252Fb%sline/"} {
		if got := etcdbackend.DirOf("locker/", "a%2Fb", slot); got != want {
			t.Errorf("the keys of slot %d begin with %q, want %q", slot, got, want)
		}
	}
	if got, want := etcdbackend.GuardKeyOf("locker/", 0x694d7a2c0f1e0b05), "locker/%guard/694d7a2c0f1e0b05"; got != want {
		t.Errorf("a guard key is %q, want %q", got, want)
	}
	if got, want := etcdbackend.GuardKeyOf("p", 5), "p%guard/0000000000000005"; got != want {
		t.Errorf("a guard key is %q, want %q", got, want)
	}
}

// A name's keys are all keys from its directory up to its end, and no other keys.
func FuzzKeys(f *testing.F) {
	f.Add("a", 0, "a/b", 0, "0f", int64(1))
	f.Add("a", 0, "A", 0, "0f", int64(-1))
	f.Add("%2F", 0, "/", 0, "", int64(0))
	f.Add("%guard", 0, "%", 0, "0000000000000001", int64(1))
	f.Add("a", 0, "a0", 0, "", int64(1<<62))
	f.Add("a", 3, "a%s3", 0, "0f", int64(1))
	f.Add("a", 1, "a", 10, "0f", int64(1))
	f.Add("a%", -1, "a", -1, "0f", int64(1))
	f.Fuzz(func(t *testing.T, a string, slotA int, b string, slotB int, owner string, guard int64) {
		slotA, slotB = slotA%(locker.MaxPermits+1), slotB%(locker.MaxPermits+1)
		if locker.ValidName(a) != nil || locker.ValidName(b) != nil || strings.Contains(owner, "/") || slotA < locker.LineSlot || slotB < locker.LineSlot {
			t.Skip()
		}
		dir := etcdbackend.DirOf("locker/", a, slotA)
		end := etcdbackend.EndOf(dir)
		within := func(key string) bool { return key >= dir && key < end }
		if key := dir + owner; !within(key) {
			t.Errorf("key %q of %q is not in its range", key, a)
		}
		if key := etcdbackend.DirOf("locker/", b, slotB) + owner; within(key) != (a == b && slotA == slotB) {
			t.Errorf("key %q of %q is in the range of %q: %v", key, b, a, within(key))
		}
		if key := etcdbackend.GuardKeyOf("locker/", guardID(guard)); within(key) {
			t.Errorf("guard key %q is in the range of %q", key, a)
		}
		if name, slot, ok := etcdbackend.ParseDir("locker/", dir); name != a || slot != slotA || !ok {
			t.Errorf("what is read from %q is slot %d of %q, %v, want slot %d of %q", dir, slot, name, ok, slotA, a)
		}
		escaped := strings.TrimSuffix(strings.TrimPrefix(etcdbackend.DirOf("locker/", a, 0), "locker/"), "/")
		if name, err := url.PathUnescape(escaped); err != nil || name != a {
			t.Errorf("the name that is read from %q is %q, %v, want %q", dir, name, err, a)
		}
	})
}

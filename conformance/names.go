package conformance

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var nameCases = []Case{
	{ID: "H58", Name: "odd-names-are-names", Run: oddNames,
		Why: "a name that works on one backend must work on all; a careless mapping makes names " +
			"collide, or makes names that can't be stored"},
	{ID: "H58.1", Name: "names-with-equal-hashes-are-names", Run: equalHashes,
		Why: "where the service wants a number and gets a hash, two names are one lock, and who " +
			"takes both waits for itself"},
	{ID: "H59", Name: "prefixes-isolate", Run: prefixes, Hooks: []Hook{HookPrefixed},
		Why: "two programs that share a service must be able to keep their names apart"},
}

// odd are names that are special somewhere: in a path, a URL, a query, a shell, a key with a hash
// tag. Some pairs become one name if Unicode is normalised.
var odd = []string{
	".", "..", "/", "//", "a/", "/a", "a//b", "a/./b", "a/../b", `\`, `a\b`, ":", "a:b", "a::b", "{a}b", "{b}a", "{}a", "{", "}",
	"%", "%2F", "%2f", "%00", "a%b", "*", "?", "[a]", "^$", "'", `"`, "`", "$(a)", "a;b", "--", "-a", "#", "&", "=", "a=b", "~", "@",
	" ", "a ", " a", "  ", "a b", "a\u00a0b", "\u200b", "A", "a", "ä", "a\u0308", "ſ", "s", "K", "\u212a", "ﬁ", "fi", "日本", "😀", "\u202e",
	"con", "nul", "a.lock", "0", "00", "null",
}

// oddNames holds all of them at the same time: if two names were the same lock, only one of them
// would be granted.
func oddNames(t T, h *Harness) {
	l, other, base := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	var names []string
	for _, name := range odd {
		names = append(names, name+base, base+name)
	}
	// Of the maximal length, different at the end, and at the start.
	for _, last := range []string{"1", "2", "é", "e"} {
		names = append(names, base+strings.Repeat("x", locker.MaxName-len(base)-len(last))+last)
		names = append(names, last+strings.Repeat("x", locker.MaxName-len(base)-len(last))+base)
	}
	held := make(map[string]locker.Lease)
	for _, name := range names {
		lease, err := step.Try(t, l, name)
		if err != nil {
			t.Errorf("TryAcquire(%q) = %v, want a lease", name, err)
			continue
		}
		if lease.Name() != name {
			t.Errorf("the lease on %q has the name %q", name, lease.Name())
		}
		held[name] = lease
	}
	for name, lease := range held {
		wantCurrent(t, other, name, 0, lease.Token(), strconv.Quote(name)+" is held")
		if lease, err := step.Try(t, other, name); err == nil || !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire(%q) while it is held = %v, %v, want ErrHeld", name, lease, err)
		}
		step.Release(t, lease)
	}
	h.WaitNoResidue(t)
}

// equalHashes holds two names at the same time that have one hash, for each hash that adapters use
// where their service wants a number or a short key.
func equalHashes(t T, h *Harness) {
	l, other, base := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	for _, hash := range slices.Sorted(maps.Keys(hashPairs)) {
		pair := hashPairs[hash]
		t.Logf("%s: %s and %s", hash, pair[0]+base, pair[1]+base)
		separate(t, l, other, pair[0]+base, pair[1]+base)
	}
	for _, digest := range slices.Sorted(maps.Keys(digests)) {
		for _, pair := range equalDigests(base, digests[digest]) {
			t.Logf("%s: %s and %s", digest, pair[0], pair[1])
			separate(t, l, other, pair[0], pair[1])
		}
	}
}

func prefixes(t T, h *Harness) {
	name, base := step.LockName(t), step.LockName(t)
	one, two := step.CloseAtEnd(t, h.Prefixed(t, base+"one/")), step.CloseAtEnd(t, h.Prefixed(t, base+"two/"))
	same, bare := step.CloseAtEnd(t, h.Prefixed(t, base+"one/")), h.OpenLocker(t)
	lease := step.Acquire(t, one, name)
	if lease.Name() != name {
		t.Errorf("Name = %q, want the one that was asked for, %q", lease.Name(), name)
	}
	step.WantHeld(t, same, name)
	step.WantFree(t, two, name)
	step.WantFree(t, bare, name)
	step.WantLive(t, lease, same)
	step.Release(t, lease)
	step.WantFree(t, same, name)
	looksBelowPrefixes(t, h, one, two, bare, name)
	long := strings.Repeat("x", locker.MaxName)
	if lease, err := step.Try(t, one, long+"1"); !errors.Is(err, locker.ErrName) {
		t.Errorf("TryAcquire with a name that is too long = %v, %v, want ErrName", lease, err)
	}
	// The name may fit or not, but it must not be cut.
	if lease, err := step.Try(t, one, long); err == nil {
		if other, err := step.Try(t, same, long[1:]+"y"); err != nil {
			t.Errorf("while a long name is held under a prefix, TryAcquire of another = %v", err)
		} else {
			step.Release(t, other)
		}
		step.Release(t, lease)
	} else if !errors.Is(err, locker.ErrName) {
		t.Errorf("TryAcquire with the longest name under a prefix = %v, want a lease or ErrName", err)
	}
}

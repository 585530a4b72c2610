package filebackend_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// The mapping may never change: two versions that run side by side must agree.
func TestFileNameGolden(t *testing.T) {
	for name, want := range map[string]string{
		"nightly-report":         "nightly-report.lock",
		"a":                      "a.lock",
		"A":                      "%41.lock",
		"a/b":                    "a%2fb.lock",
		".":                      "%2e.lock",
		"..":                     "%2e%2e.lock",
		"../../etc/passwd":       "%2e%2e%2f%2e%2e%2fetc%2fpasswd.lock",
		"a.lock":                 "a%2elock.lock",
		"%41":                    "%2541.lock",
		"x{y}":                   "x%7by%7d.lock",
		"sha256=00":              "sha256%3d00.lock",
		" ":                      "%20.lock",
		"C:\\con":                "%43%3a%5ccon.lock",
		"é":                      "%c3%a9.lock",
		"e\u0301":                "e%cc%81.lock",
		"invoices/2026-11_x":     "invoices%2f2026-11_x.lock",
		strings.Repeat("z", 200): strings.Repeat("z", 200) + ".lock",
		strings.Repeat("é", 41):  strings.Repeat("%c3%a9", 41) + ".lock",
		strings.Repeat("é", 42):  "sha256=18031931d1563e7c5f2f947822255d741e094a7c9b849fe1ae55ad3ec5707a2f.lock",
		strings.Repeat("é", 100): "sha256=f42ec48e1e4b487e590e0b3d4e58437c8327efa855d769709f4942a4f73a7eb6.lock",
	} {
		if got := filebackend.FileName(name, 0); got != want {
			t.Errorf("FileName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestFileNameOfSlotsGolden(t *testing.T) {
	for _, tc := range []struct {
		name string
		slot int
		want string
	}{
		{"nightly-report", 3, "nightly-report.3.lock"},
		{"nightly-report", locker.LineSlot, "nightly-report.line.lock"},
		{"a.3", 0, "a%2e3.lock"},
		{"a.3", 1000, "a%2e3.1000.lock"},
		{strings.Repeat("z", 200), 1000, strings.Repeat("z", 200) + ".1000.lock"},
		// 246 characters, which are too long with the largest slot, and not as a lock.
		{strings.Repeat("é", 41), 9, "sha256=91671059882498a5710f0569f687119d63ced3bada4c56960a1056389c2183e5.9.lock"},
	} {
		if got := filebackend.FileName(tc.name, tc.slot); got != tc.want {
			t.Errorf("FileName(%q, %d) = %q, want %q", tc.name, tc.slot, got, tc.want)
		}
	}
}

func TestNameOf(t *testing.T) {
	for _, name := range []string{"a", "a.3", "a.line", "ä/ö", strings.Repeat("z", 200), strings.Repeat("é", 42)} {
		for _, slot := range []int{0, 1, 1000, locker.LineSlot} {
			file := filebackend.FileName(name, slot)
			want := name
			if strings.HasPrefix(file, "sha256=") {
				want = ""
			}
			if got, of, ok := filebackend.NameOf(file); got != want || of != slot || !ok {
				t.Errorf("NameOf(%q) = %q, %d, %v, want %q, %d", file, got, of, ok, want, slot)
			}
		}
	}
	for _, file := range []string{"a", "a.lock.bak", "a.0.lock", "a.03.lock", "a.1001.lock", "a.b.lock", "a.3.4.lock", ".3.lock", ".lock", "A.3.lock",
		"sha256=00.0.lock"} {
		if name, slot, ok := filebackend.NameOf(file); ok {
			t.Errorf("NameOf(%q) = %q, %d, want none", file, name, slot)
		}
	}
}

// safe matches names that every file system keeps apart: no upper case, nothing to normalise, no
// leading dot.
var safe = regexp.MustCompile(`^[a-z0-9_%-][a-z0-9_%=-]*(\.(line|[0-9]+))?\.lock$`)

func FuzzFileName(f *testing.F) {
	f.Add("a", 0, "A", 0)
	f.Add("a/b", 0, "a%2fb", 0)
	f.Add("é", 0, "e\u0301", 0)
	f.Add("a", 3, "a.3", 0)
	f.Add("a.line", 0, "a", -1)
	f.Add(strings.Repeat("/", 83), 0, strings.Repeat("/", 84), 0)
	f.Add(strings.Repeat("A", 150), 1, strings.Repeat("A", 151), 1)
	f.Add("sha256="+strings.Repeat("0", 64), 0, "sha256", 0)
	f.Fuzz(func(t *testing.T, a string, slotA int, b string, slotB int) {
		slotA, slotB = slotA%(locker.MaxPermits+1), slotB%(locker.MaxPermits+1)
		if slotA < locker.LineSlot || slotB < locker.LineSlot {
			t.Skip()
		}
		fileA, fileB := filebackend.FileName(a, slotA), filebackend.FileName(b, slotB)
		if (fileA == fileB) != (a == b && slotA == slotB) {
			t.Errorf("FileName(%q, %d) = %q, FileName(%q, %d) = %q", a, slotA, fileA, b, slotB, fileB)
		}
		if locker.ValidName(a) == nil && (!safe.MatchString(fileA) || len(fileA) > 255) {
			t.Errorf("FileName(%q, %d) = %q is not safe", a, slotA, fileA)
		}
	})
}

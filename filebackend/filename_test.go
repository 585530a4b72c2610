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
		if got := filebackend.FileName(name); got != want {
			t.Errorf("FileName(%q) = %q, want %q", name, got, want)
		}
	}
}

// safe matches names that every file system keeps apart: no upper case, nothing to normalise, no
// leading dot.
var safe = regexp.MustCompile(`^[a-z0-9_%-][a-z0-9_%=-]*\.lock$`)

func FuzzFileName(f *testing.F) {
	f.Add("a", "A")
	f.Add("a/b", "a%2fb")
	f.Add("é", "e\u0301")
	f.Add(strings.Repeat("/", 83), strings.Repeat("/", 84))
	f.Add(strings.Repeat("A", 150), strings.Repeat("A", 151))
	f.Add("sha256="+strings.Repeat("0", 64), "sha256")
	f.Fuzz(func(t *testing.T, a, b string) {
		fileA, fileB := filebackend.FileName(a), filebackend.FileName(b)
		if (fileA == fileB) != (a == b) {
			t.Errorf("FileName(%q) = %q, FileName(%q) = %q", a, fileA, b, fileB)
		}
		if locker.ValidName(a) == nil && (!safe.MatchString(fileA) || len(fileA) > 255) {
			t.Errorf("FileName(%q) = %q is not safe", a, fileA)
		}
	})
}

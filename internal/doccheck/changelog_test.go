package doccheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// releaseNotes runs .ci/release-notes on a CHANGELOG.md.
func releaseNotes(t *testing.T, changelog, version string) (string, error) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("it is a script for bash")
	}
	script, err := os.ReadFile(filepath.Join(root, ".ci", "release-notes"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, ".ci", "release-notes")
	if err := os.Mkdir(filepath.Dir(copied), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{copied: string(script), filepath.Join(dir, "CHANGELOG.md"): changelog} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "bash", copied, version).CombinedOutput()
	return string(out), err
}

// Nothing that a tag contains is missing in its notes: there are none while something is under
// "Unreleased".
func TestReleaseNotes(t *testing.T) {
	const released = "## v0.2.0\n\n- two\n\n### On the way to v0.2.0\n\n- way\n\n## v0.1.0\n\n- one\n"
	for name, tc := range map[string]struct {
		changelog, version string
		want               string // "": it fails
	}{
		"a version":            {"# Changelog\n\n" + released, "v0.2.0", "\n- two\n\n"},
		"an earlier version":   {"# Changelog\n\n" + released, "v0.1.0", "\n- one\n"},
		"no such version":      {"# Changelog\n\n" + released, "v0.3.0", ""},
		"something unreleased": {"# Changelog\n\n## Unreleased\n\n- three\n\n" + released, "v0.2.0", ""},
		"nothing unreleased":   {"# Changelog\n\n## Unreleased\n\n" + released, "v0.2.0", "\n- two\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := releaseNotes(t, tc.changelog, tc.version)
			if (err == nil) != (tc.want != "") || err == nil && strings.TrimSpace(out) != strings.TrimSpace(tc.want) {
				t.Errorf("%q, %v, want %q", out, err, tc.want)
			}
		})
	}
}

// The first version has no predecessor. Until it is tagged, its section describes what there is, and
// nothing is "Unreleased". The notes of the first tag can be made at any time.
func TestChangelogOfFirstVersion(t *testing.T) {
	text := readPage(t, "CHANGELOG.md").text
	if !strings.Contains(squeeze(text), "No version is tagged yet.") {
		return
	}
	if strings.Contains(text, "\n## Unreleased") {
		t.Error(`CHANGELOG.md has a section "Unreleased": before the first tag all belongs to v0.1.0`)
	}
	notes, err := releaseNotes(t, text, "v0.1.0")
	if err != nil || !strings.HasPrefix(strings.TrimSpace(notes), "The first version") || strings.Contains(notes, "On the way") {
		t.Errorf("the notes of v0.1.0 are %.200q, %v", notes, err)
	}
}

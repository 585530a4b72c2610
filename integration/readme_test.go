package integration

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The matrix in the README is what the code says of itself.
func TestReadmeMatrix(t *testing.T) {
	const begin, end = "<!-- matrix: locker matrix --format markdown -->\n", "\n<!-- end of matrix -->"
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok1 := strings.Cut(string(text), begin)
	got, _, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("README.md has no place for the matrix")
	}
	out, err := exec.CommandContext(t.Context(), build(t, "cmd/locker"), "matrix", "--format", "markdown").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSuffix(string(out), "\n")
	if got != want {
		t.Errorf("the matrix in README.md is not that of the code, which is:\n%s", want)
	}
}

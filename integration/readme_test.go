package integration

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The matrix in docs/guarantees.md is what the code says of itself.
func TestMatrixInGuarantees(t *testing.T) {
	const begin, end = "<!-- matrix: locker matrix --format markdown -->\n", "\n<!-- end of matrix -->"
	text, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok1 := strings.Cut(string(text), begin)
	got, _, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("docs/guarantees.md has no place for the matrix")
	}
	out, err := exec.CommandContext(t.Context(), build(t, "cmd/locker"), "matrix", "--format", "markdown").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSuffix(string(out), "\n")
	if got != want {
		t.Errorf("the matrix in docs/guarantees.md is not the code's, which is:\n%s", want)
	}
}

// The fenced program in the README is one that compiles.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../fence/fencepg/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(example), "\nfunc addToInvoice(")
	if !found {
		t.Fatal("the example has no addToInvoice")
	}
	if !strings.Contains(string(readme), "\nfunc addToInvoice("+program+"```\n") {
		t.Error("README.md doesn't show addToInvoice as it is in the example of package fencepg")
	}
}

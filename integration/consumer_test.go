package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goSum makes a module that imports one package of this one and returns its go.sum.
func goSum(t *testing.T, pkg string) string {
	t.Helper()
	repo, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/consumer\n\ngo 1.25.0\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+repo+"\n")
	write("main.go", "package main\n\nimport _ \""+pkg+"\"\n\nfunc main() {}\n")
	cmd := exec.CommandContext(t.Context(), "go", "mod", "tidy")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(sum)
}

// A consumer pays for what it imports: the root needs nothing. Another package of this module may cost what its own tests
// need (a checker of goroutine leaks), because "go mod tidy" asks for that as well.
func TestConsumerPaysForLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: go mod tidy may ask a module proxy")
	}
	for _, tc := range []struct {
		pkg   string
		lines int
	}{
		{module, 0},
		{module + "/driver", 5},
		{module + "/membackend", 5},
		{module + "/filebackend", 5},
	} {
		sum := strings.TrimSpace(goSum(t, tc.pkg))
		if sum != "" && strings.Count(sum, "\n")+1 > tc.lines {
			t.Errorf("a consumer of %s alone has in its go.sum, and %d lines are allowed:\n%s", tc.pkg, tc.lines, sum)
		}
	}
}

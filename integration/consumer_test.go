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

// A consumer pays for what it imports: the root and the embedded backends need nothing, so they add nothing to its go.sum.
func TestConsumerPaysForNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: go mod tidy may ask a module proxy")
	}
	for _, pkg := range []string{module, module + "/membackend", module + "/filebackend", module + "/driver"} {
		if sum := goSum(t, pkg); strings.TrimSpace(sum) != "" {
			t.Errorf("a consumer of %s alone has in its go.sum:\n%s", pkg, sum)
		}
	}
}

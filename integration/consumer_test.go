package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goSum makes a module that imports one package, of this module or of one that it requires, and returns the lines of its
// go.sum.
func goSum(t *testing.T, pkg string) []string {
	t.Helper()
	repo, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	require := "require " + module + " v0.0.0\n\nreplace " + module + " => " + repo + "\n"
	if !strings.HasPrefix(pkg, module) {
		version, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		require = "require " + pkg + " " + string(version)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/consumer\n\ngo 1.25.0\n\n"+require)
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
	return slices.Collect(strings.Lines(string(sum)))
}

// A consumer pays for what it imports: the root needs nothing. Another package of this module may cost what its own tests
// need (a checker of goroutine leaks), because "go mod tidy" asks for that as well.
func TestConsumerPaysForLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: go mod tidy may ask a module proxy")
	}
	for _, tc := range []struct {
		pkg    string
		lines  int
		client string // whose lines come on top
	}{
		{module, 0, ""},
		{module + "/driver", 5, ""},
		{module + "/membackend", 5, ""},
		{module + "/filebackend", 5, ""},
		{module + "/redisbackend", 5, redisClient},
		{module + "/redlockbackend", 5, redisClient},
		{module + "/etcdbackend", 5, etcdClient},
		{module + "/pgbackend", 5, pgClient},
		{module + "/zkbackend", 5, zkClient},
	} {
		allowed := tc.lines
		if tc.client != "" {
			allowed += len(goSum(t, tc.client))
		}
		if sum := goSum(t, tc.pkg); len(sum) > allowed {
			t.Errorf("a consumer of %s alone has in its go.sum, and %d lines are allowed:\n%s", tc.pkg, allowed, strings.Join(sum, ""))
		}
	}
}

package integration

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// rootDir is the folder of the module under test. The go command must use that module's go.mod, not
// this module's.
const rootDir = ".."

// goCommand returns a go command that runs in rootDir.
func goCommand(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = rootDir
	return cmd
}

// build builds a program of the root module.
func build(t *testing.T, pkg string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := goCommand(t, "build", "-o", binary, module+"/"+pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

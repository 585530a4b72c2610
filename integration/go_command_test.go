package integration

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// rootDir is the folder of the module that is tested. What its go.mod says counts, and not what this module's says.
const rootDir = ".."

// goCommand runs the go command there.
func goCommand(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = rootDir
	return cmd
}

// build makes a program of the root module.
func build(t *testing.T, pkg string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := goCommand(t, "build", "-o", binary, module+"/"+pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

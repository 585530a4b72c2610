package integration

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// build makes a program of this module.
func build(t *testing.T, pkg string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, module+"/"+pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

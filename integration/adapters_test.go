//go:build unix

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// An adapter imports the interface, and no backend: the program chooses that.
func TestAdaptersImportNoBackend(t *testing.T) {
	allowed := append([]string{module, module + "/leader"}, importsOfRoot...)
	for _, adapter := range []string{"gocron", "migrate", "goose", "certmagic"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
		cmd.Dir = filepath.Join(rootDir, "adapters", adapter)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list in %s: %v", cmd.Dir, err)
		}
		for _, dep := range strings.Fields(string(out)) {
			if strings.HasPrefix(dep, module) && dep != module+"/adapters/"+adapter && !slices.Contains(allowed, dep) {
				t.Errorf("adapters/%s depends on %s", adapter, dep)
			}
		}
	}
}

// The adapters, with the libraries that they are for, on all services.
func TestAdapters(t *testing.T) {
	itest.NeedServers(t)
	var urls []string
	for _, backend := range []string{"redis", "redlock", "etcd", "zookeeper", "postgres"} {
		urls = append(urls, serviceURL(t, backend))
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-race", "-count=1", ".")
	cmd.Dir = filepath.Join(rootDir, "adapters", "acceptance")
	cmd.Env = append(os.Environ(), "LOCKER_URLS="+strings.Join(urls, " "))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go test in %s: %v\n%s", cmd.Dir, err, out)
	}
}

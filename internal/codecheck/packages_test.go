package codecheck

import (
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packages are what a block may import: a module's own packages and those that they depend on.
type packages struct {
	dir   string            // of the module
	known map[string]string // paths, by the name that code uses
}

// ambiguous are names that several packages have. The one that the pages mean is here.
var ambiguous = map[string]string{
	"rand": "math/rand/v2", "log": "log", "slog": "log/slog", "http": "net/http", "url": "net/url", "tls": "crypto/tls",
	"context": "context", "errors": "errors", "time": "time", "sql": "database/sql", "testing": "testing", "sync": "sync",
	"fmt": "fmt", "os": "os", "net": "net", "strings": "strings", "synctest": "testing/synctest", "exec": "os/exec",
	"logging": "github.com/redis/go-redis/v9/logging", "metric": "go.opentelemetry.io/otel/metric", "trace": "go.opentelemetry.io/otel/trace",
}

// listPackages lists the packages of the module in dir.
func listPackages(t *testing.T, dir string) packages {
	t.Helper()
	p := packages{dir: dir, known: maps.Clone(ambiguous)}
	out := goList(t, dir, "-deps", "-test", "-f", "{{if not .ForTest}}{{.Name}} {{.ImportPath}}{{end}}", "./...")
	for l := range strings.Lines(out) {
		name, path, ok := strings.Cut(strings.TrimSpace(l), " ")
		if !ok || name == "main" || slices.Contains(strings.Split(path, "/"), "internal") || strings.HasPrefix(path, "vendor/") {
			continue
		}
		if _, fixed := ambiguous[name]; fixed {
			continue
		}
		old, seen := p.known[name]
		ours := strings.HasPrefix(path, "github.com/fencedlock/locker")
		if !seen || ours || !strings.HasPrefix(old, "github.com/fencedlock/locker") && len(path) < len(old) {
			p.known[name] = path
		}
	}
	return p
}

// importer returns an importer of these packages. It reads what the compiler has made of them.
func (p packages) importer(t *testing.T, fset *token.FileSet, paths []string) types.Importer {
	t.Helper()
	if len(paths) == 0 {
		return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return nil, errors.New("no package") })
	}
	files := make(map[string]string)
	args := append([]string{"-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, paths...)
	for l := range strings.Lines(goList(t, p.dir, args...)) {
		path, file, _ := strings.Cut(strings.TrimSpace(l), " ")
		files[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := files[path]
		if !ok || file == "" {
			return nil, fmt.Errorf("there is no package %s", path)
		}
		return os.Open(file)
	})
}

func goList(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = filepath.Join(root, filepath.FromSlash(dir))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list in %q: %v\n%s", dir, err, stderr.String())
	}
	return string(out)
}

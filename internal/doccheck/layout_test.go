package doccheck

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// The folders that import several backends are those in docs/design.md. The service in memory isn't
// counted: it has no client library.
func TestImportersOfSeveralBackends(t *testing.T) {
	const begins = "Only programs and tests import several backends: "
	_, list, found := strings.Cut(squeeze(readPage(t, "docs/design.md").text), begins)
	if !found {
		t.Fatalf("docs/design.md has no sentence that begins with %q", begins)
	}
	list, _, _ = strings.Cut(list, ". ")
	named := make(map[string]bool) // whether it does
	for _, m := range quoted.FindAllStringSubmatch(list, -1) {
		named[m[1]] = false
	}
	for folder, backends := range importedBackends(t) {
		if len(backends) < 2 {
			continue
		}
		of := folder
		for of != "." {
			if _, ok := named[of]; ok {
				named[of] = true
				break
			}
			of = path.Dir(of)
		}
		if of == "." {
			t.Errorf("%s imports %d backends, and docs/design.md doesn't name it", folder, len(backends))
		}
	}
	for folder, does := range named {
		if !does {
			t.Errorf("docs/design.md says that %s imports several backends, and it doesn't", folder)
		}
	}
}

// importedBackends returns the backends that each folder imports, its tests included.
func importedBackends(t *testing.T) map[string]map[string]bool {
	t.Helper()
	imported := make(map[string]map[string]bool)
	for _, name := range files(t, ".go") {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			pkg, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "github.com/fencedlock/locker/")
			if !ok || strings.Contains(pkg, "/") || !strings.HasSuffix(pkg, "backend") || pkg == "membackend" {
				continue
			}
			folder := path.Dir(name)
			if imported[folder] == nil {
				imported[folder] = make(map[string]bool)
			}
			imported[folder][pkg] = true
		}
	}
	return imported
}

package apicheck_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker/internal/apicheck"
)

const (
	root   = "../.."
	golden = "testdata/api"
)

var update = flag.Bool("update", false, "write the lists again")

// golden files are named for the package's folder; the root's for the module.
func goldenOf(pkg string) string {
	if pkg == "." {
		pkg = "locker"
	}
	return strings.ReplaceAll(pkg, "/", "-") + ".txt"
}

// TestAPI compares what each public package exports with its list, so that no API changes by accident.
func TestAPI(t *testing.T) {
	pkgs, err := apicheck.Packages(root)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.RemoveAll(golden); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(golden, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	known := make(map[string]bool)
	for _, pkg := range pkgs {
		file := filepath.Join(golden, goldenOf(pkg))
		known[goldenOf(pkg)] = true
		t.Run(pkg, func(t *testing.T) {
			got, err := apicheck.List(filepath.Join(root, pkg))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v\nif the package is new, run: go test ./internal/apicheck -update", err)
			}
			if diff := compare(string(want), got); diff != "" {
				t.Errorf("the exported API of %s has changed:\n%s\nif that is wanted, run: go test ./internal/apicheck -update", pkg, diff)
			}
		})
	}
	entries, err := os.ReadDir(golden)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !known[e.Name()] {
			t.Errorf("%s/%s is the list of a package that doesn't exist; run: go test ./internal/apicheck -update", golden, e.Name())
		}
	}
}

// compare names the lines that only one text has, and is empty for equal texts.
func compare(want, got string) string {
	if want == got {
		return ""
	}
	var diff strings.Builder
	for _, side := range []struct{ sign, has, lacks string }{{"- ", want, got}, {"+ ", got, want}} {
		others := strings.Split(side.lacks, "\n")
		for line := range strings.Lines(side.has) {
			if !slices.Contains(others, strings.TrimSuffix(line, "\n")) {
				diff.WriteString(side.sign + line)
			}
		}
	}
	if diff.Len() == 0 {
		return "the same lines are in another order\n"
	}
	return diff.String()
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go": `// Package a has comments.
package a

import "errors"

// ErrA is documented.
var ErrA, errB = errors.New("a"), errors.New("b")

// B has a field for everybody.
type B struct {
	// Shown is documented.
	Shown int // and so is this

	Other  string
	hidden bool
}

func (b *B) Do(what string) (err error) { return b.do() }
func (b *B) do() error                  { return nil }

type c struct{}

func (c) Public() {}
`,
		"b.go":         "package a\n\ntype Kind int\n\nconst (\n\tFirst Kind = iota + 1\n\tSecond\n\tthird\n)\n\nfunc A[T any](v T) {}\n\ntype Of[K, V any] struct{}\n\nfunc (o *Of[K, V]) Get() {}\n",
		"b_windows.go": "package a\n\nfunc OnWindows() {}\n",
		"b_test.go":    "package a\n\nfunc InTests() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const want = `const (
	First Kind = iota + 1
	Second
)
func (b *B) Do(what string) (err error)
func (o *Of[K, V]) Get()
func A[T any](v T)
type B struct {
	Shown int
	Other string
	// contains filtered or unexported fields
}
type Kind int
type Of[K, V any] struct{}
var ErrA
`
	got, err := apicheck.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("List =\n%s\nwant\n%s", got, want)
	}
	pkgs, err := apicheck.Packages(dir)
	if err != nil || !slices.Equal(pkgs, []string{"."}) {
		t.Errorf("Packages = %q, %v, want the folder itself", pkgs, err)
	}
}

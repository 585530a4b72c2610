package doccheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// runFlag is -run of go test. Other programs have such a flag, too: goRun.
var (
	runFlag = regexp.MustCompile("[ `]-run[ =](?:'([^']*)'|([^ `]+))")
	goRun   = regexp.MustCompile("go run [^`]*-run ")
)

// go test passes when -run matches nothing. So each test that a page names exists.
func TestNamesAfterRun(t *testing.T) {
	tests := testNames(t)
	count := 0
	for _, p := range pages(t) {
		if p.name != "README.md" && p.name != "CONTRIBUTING.md" && p.name != "SECURITY.md" && !strings.HasPrefix(p.name, "docs/") {
			continue
		}
		number := 0
		for l := range strings.Lines(p.text) {
			number++
			l = strings.TrimSpace(l)
			if goRun.MatchString(l) {
				continue
			}
			for _, m := range runFlag.FindAllStringSubmatch(" "+l, -1) {
				count++
				for _, name := range unknown(tests, m[1]+m[2]) {
					t.Errorf("%s:%d: no test is called %s", p.name, number, name)
				}
			}
		}
	}
	if count < 20 {
		t.Errorf("found %d commands with -run, want those of all pages", count)
	}
}

// testNames returns the names of all functions that -run may choose.
func testNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, name := range files(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && regexp.MustCompile("^(Test|Example|Fuzz)").MatchString(f.Name.Name) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// unknown returns the alternatives of a pattern that choose no test. What comes after a slash
// chooses subtests, which have no names in the code. ^$ chooses nothing, on purpose.
func unknown(tests []string, pattern string) []string {
	pattern, _, _ = strings.Cut(pattern, "/")
	var names []string
	for name := range strings.SplitSeq(pattern, "|") {
		expr, err := regexp.Compile(name)
		if err != nil || name != "^$" && !slices.ContainsFunc(tests, expr.MatchString) {
			names = append(names, name)
		}
	}
	return names
}

// Names that don't exist are found, also one of several.
func TestUnknown(t *testing.T) {
	tests := []string{"TestCommands", "TestCut", "ExampleServer_Expire"}
	for pattern, want := range map[string]string{
		"TestCommands/bench":            "",
		"TestCommands/^(A|M)":           "",
		"Cut$":                          "",
		"^$":                            "",
		"TestCut|TestBenchCommand":      "TestBenchCommand",
		"TestBenchCommand":              "TestBenchCommand",
		"Expire|Cut|^Commands|TestCuts": "^Commands TestCuts",
	} {
		if got := strings.Join(unknown(tests, pattern), " "); got != want {
			t.Errorf("unknown(%q) = %q, want %q", pattern, got, want)
		}
	}
}

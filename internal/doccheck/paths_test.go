package doccheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fileWithNames = regexp.MustCompile("`([a-z_/]+\\.(?:go|lua))`(?: \\(([^)]*)\\))?")
	nameInFile    = regexp.MustCompile("`([A-Za-z]+)` in `([a-z_/]+\\.go)`")
)

// folders has the folder of each backend, by its name in tables.
var folders = map[string]string{
	"redis": "redisbackend", "redlock": "redlockbackend", "etcd": "etcdbackend", "zookeeper": "zkbackend",
	"postgres": "pgbackend", "mem": "membackend", "file": "filebackend",
}

// The files in docs/design.md that a deadline and a grant pass through exist, and declare the names
// that are given with them.
func TestPathsInDesign(t *testing.T) {
	const heading = "## From an answer to Deadline()"
	section, text := false, ""
	count, rows := 0, make(map[string]int)
	for _, l := range readPage(t, "docs/design.md").prose {
		if strings.HasPrefix(l.text, "## ") {
			section = l.text == heading
		}
		if !section {
			continue
		}
		cells := cellsOf(l.text)
		if len(cells) != 2 {
			text += l.text + " "
			continue
		}
		backend, _, _ := strings.Cut(cells[0], ",")
		rows[backend]++
		count += checkPath(t, folders[backend], cells[1])
	}
	count += checkPath(t, "", text)
	for backend := range folders {
		if rows[backend] < 2 {
			t.Errorf("docs/design.md, %q: found %d rows of %s, want one in each table", heading, rows[backend], backend)
		}
	}
	if count < 40 {
		t.Errorf("docs/design.md, %q: found %d names, want names in all rows", heading, count)
	}
}

// checkPath compares the names in a text with the files that they are said to be in. Files without
// a folder are files of the backend.
func checkPath(t *testing.T, backend, text string) (names int) {
	t.Helper()
	check := func(file, name string) {
		names++
		if why := lacks(codeFile(backend, file), name); why != "" {
			t.Errorf("docs/design.md: `%s` in `%s`: %s", name, file, why)
		}
	}
	for _, m := range fileWithNames.FindAllStringSubmatch(text, -1) {
		check(m[1], "")
		for _, quote := range quoted.FindAllStringSubmatch(m[2], -1) {
			if strings.Contains(quote[1], ".go") {
				check(quote[1], "")
			} else {
				check(m[1], quote[1])
			}
		}
	}
	for _, m := range nameInFile.FindAllStringSubmatch(text, -1) {
		check(m[2], m[1])
	}
	return names
}

func codeFile(backend, file string) string {
	switch {
	case strings.HasPrefix(file, "driver/"):
		return file
	case strings.Contains(file, "/"):
		return "internal/" + file
	}
	return backend + "/" + file
}

// lacks says what is wrong with a file in which name should be declared, or nothing. A name may be
// TYPE.METHOD; without one only the file must exist.
func lacks(file, name string) string {
	file = filepath.Join(root, filepath.FromSlash(file))
	if name == "" {
		if _, err := os.Stat(file); err != nil {
			return "there is no such file"
		}
		return ""
	}
	code, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		return err.Error()
	}
	found := false
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			found = found || n.Name.Name == name || methodName(n) == name
		case *ast.TypeSpec:
			found = found || n.Name.Name == name
		case *ast.StructType:
			for _, f := range n.Fields.List {
				for _, id := range f.Names {
					found = found || id.Name == name
				}
			}
		}
		return true
	})
	if !found {
		return "it isn't declared there"
	}
	return ""
}

// methodName is TYPE.METHOD.
func methodName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	id, ok := of.(*ast.Ident)
	if !ok {
		return ""
	}
	return id.Name + "." + f.Name.Name
}

// Names that aren't declared where a text says are found.
func TestLacks(t *testing.T) {
	for _, tc := range []struct {
		file, name string
		ok         bool
	}{
		{"driver/lease.go", "", true},
		{"driver/lease.go", "extend", true},
		{"pgbackend/renew.go", "conn.renew", true},
		{"pgbackend/renew.go", "lock.renew", false},
		{"redlockbackend/attempt.go", "backers", true},
		{"redlockbackend/quorum.go", "backers", false},
		{"driver/no.go", "", false},
		{"driver/no.go", "extend", false},
	} {
		if why := lacks(tc.file, tc.name); (why == "") != tc.ok {
			t.Errorf("lacks(%q, %q) = %q, want an error: %v", tc.file, tc.name, why, !tc.ok)
		}
	}
}

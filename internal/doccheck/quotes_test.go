package doccheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// The error texts in the first column of docs/troubleshooting.md are in the code. "…" stands for
// what differs.
func TestQuotedErrorsExist(t *testing.T) {
	texts := literals(t)
	section := false
	count := 0
	for _, l := range readPage(t, "docs/troubleshooting.md").prose {
		if strings.HasPrefix(l.text, "## ") {
			section = l.text == "## By error text"
		}
		cells := cellsOf(l.text)
		if !section || len(cells) != 3 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[0], -1) {
			count++
			for part := range strings.SplitSeq(m[1], "…") {
				if part = strings.TrimSpace(part); len(part) > 2 && !strings.Contains(texts, part) {
					t.Errorf("docs/troubleshooting.md:%d: no error in the code has %q", l.number, part)
				}
			}
		}
	}
	if count < 50 {
		t.Errorf("found %d error texts, want those of all tables", count)
	}
}

// literals returns the texts of all string constants in the code without tests, a line for each.
func literals(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/doccheck/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := constant(e)
			if ok {
				all.WriteString(strings.ReplaceAll(text, "%%", "%") + "\n")
			}
			return !ok
		})
	}
	return all.String()
}

// constant is the text of a string, or of the sum of strings. A sum with something else isn't one.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		left, ok1 := constant(e.X)
		right, ok2 := constant(e.Y)
		return left + right, ok1 && ok2 && e.Op == token.ADD
	}
	return "", false
}

package codecheck

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each block of Go compiles.
func TestGoBlocks(t *testing.T) {
	modules := make(map[string][]block)
	count := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang == "go" && b.skip == "" {
				modules[b.module] = append(modules[b.module], b)
				count++
			}
		}
	}
	if count < 10 {
		t.Fatalf("found %d blocks of Go, want the blocks of all pages", count)
	}
	for module, blocks := range modules {
		for _, mistake := range check(t, module, blocks) {
			t.Error(mistake)
		}
	}
}

// check compiles blocks that import what a module has, and returns the mistakes.
func check(t *testing.T, module string, blocks []block) (mistakes []string) {
	t.Helper()
	fset := token.NewFileSet()
	known := listPackages(t, module)
	units := make([][]*ast.File, len(blocks))
	var paths []string
	for i, b := range blocks {
		f, err := parseBlock(fset, b)
		if err != nil {
			mistakes = append(mistakes, err.Error())
			continue
		}
		units[i] = append(needs(t, fset, b.page, f), f)
		for _, f := range units[i] {
			paths = append(paths, importMissing(f, known.known)...)
		}
	}
	slices.Sort(paths)
	imports := known.importer(t, fset, slices.Compact(paths))
	for i, b := range blocks {
		config := types.Config{Importer: imports, Error: func(err error) {
			var e types.Error
			if !errors.As(err, &e) || e.Soft { // unused variables and imports
				return
			}
			hint := ""
			if name, ok := strings.CutPrefix(e.Msg, "undefined: "); ok && !strings.Contains(name, ".") {
				hint = fmt.Sprintf(" (declare %s in internal/codecheck/testdata/needs/%s)", name, needsOf(b.page))
			}
			mistakes = append(mistakes, fmt.Sprintf("%s: %s%s", fset.Position(e.Pos), e.Msg, hint))
		}}
		if units[i] != nil {
			_, _ = config.Check("page", fset, units[i], nil) // which has told Error
		}
	}
	return mistakes
}

// needsOf is the file that declares what the blocks of a page need.
func needsOf(page string) string { return strings.TrimSuffix(path.Base(page), ".md") + ".go" }

// needs returns what the pages may use without declaring it, less what the block declares.
func needs(t *testing.T, fset *token.FileSet, page string, b *ast.File) (files []*ast.File) {
	t.Helper()
	own := make(map[string]bool)
	for _, d := range b.Decls {
		for _, name := range declared(d) {
			own[name] = true
		}
	}
	for _, name := range []string{needsOf(page), "all.go"} { // a page's own declarations come first
		f, err := parser.ParseFile(fset, filepath.Join("testdata", "needs", name), nil, parser.SkipObjectResolution)
		if errors.Is(err, fs.ErrNotExist) && name != "all.go" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Name.Name = b.Name.Name
		f.Decls = slices.DeleteFunc(f.Decls, func(d ast.Decl) bool {
			names := declared(d)
			if slices.ContainsFunc(names, func(name string) bool { return own[name] }) {
				return true
			}
			for _, name := range names {
				own[name] = true
			}
			return false
		})
		files = append(files, f)
	}
	return files
}

// declared returns the names that a declaration adds to its package.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.Name != "_" {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// importMissing adds the imports that a file needs and doesn't have, and returns all its imports.
func importMissing(f *ast.File, known map[string]string) (paths []string) {
	have := make(map[string]bool)
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue
		}
		paths = append(paths, p)
		for name, knownPath := range known {
			have[name] = have[name] || knownPath == p && i.Name == nil
		}
		if i.Name != nil {
			have[i.Name.Name] = true
		}
	}
	add := &ast.GenDecl{Tok: token.IMPORT}
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if !ok || have[x.Name] || known[x.Name] == "" || !token.IsExported(s.Sel.Name) {
			return true
		}
		have[x.Name] = true
		paths = append(paths, known[x.Name])
		spec := &ast.ImportSpec{Name: ast.NewIdent(x.Name), Path: &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(known[x.Name])}}
		add.Specs = append(add.Specs, spec)
		f.Imports = append(f.Imports, spec)
		return true
	})
	if len(add.Specs) > 0 {
		f.Decls = append([]ast.Decl{add}, f.Decls...)
	}
	return paths
}

// What is in testdata/needs is needed: each file belongs to a page.
func TestNeedsHavePages(t *testing.T) {
	files, err := os.ReadDir(filepath.Join("testdata", "needs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		known := f.Name() == "all.go" || slices.ContainsFunc(pages(t), func(p page) bool { return needsOf(p.name) == f.Name() })
		if !known {
			t.Errorf("testdata/needs/%s belongs to no page", f.Name())
		}
	}
}

// Package apicheck lists what a package exports, so that a change of it is seen in review. The lists are in
// testdata/api, one file for each public package. After a wanted change:
//
//	go test ./internal/apicheck -update
package apicheck

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// platform is the one whose files are listed, so that the lists are the same everywhere.
var platform = build.Context{GOOS: "linux", GOARCH: "amd64", Compiler: "gc", ReleaseTags: build.Default.ReleaseTags}

// Packages returns the folders below root that have a public package, relative to root and with slashes.
func Packages(root string) ([]string, error) {
	var list []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := d.Name()
		_, otherModule := os.Stat(filepath.Join(path, "go.mod"))
		switch {
		case rel == ".":
		case strings.HasPrefix(name, "."), name == "internal", name == "testdata", rel == "integration", otherModule == nil:
			return filepath.SkipDir
		}
		files, err := parse(path)
		if err == nil && len(files) > 0 && files[0].Name.Name != "main" {
			list = append(list, filepath.ToSlash(rel))
		}
		return err
	})
	return list, err
}

// List returns the exported declarations of the package in a folder, without comments, values of variables
// and bodies: one line for each, or more for a type's fields and methods. The order doesn't depend on files.
func List(dir string) (string, error) {
	files, err := parse(dir)
	if err != nil {
		return "", err
	}
	var list []string
	for _, file := range files {
		ast.FileExports(file)
		for _, decl := range file.Decls {
			list = append(list, declared(decl)...)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ""), nil
}

// fset is empty: the text of a declaration doesn't depend on where it is.
var fset = token.NewFileSet()

// parse returns the files of a folder that are compiled into its package, without comments.
func parse(dir string) ([]*ast.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if match, err := platform.MatchFile(dir, e.Name()); err != nil || !match {
			continue
		}
		file, err := parser.ParseFile(fset, filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// declared is the text of a declaration. Constants stay together, because a value may follow from the one
// before.
func declared(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil && !ast.IsExported(receiver(d.Recv.List[0].Type)) {
			return nil
		}
		d.Body = nil
		return []string{text(d)}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT {
			return nil
		}
		if d.Tok == token.CONST {
			return []string{text(d)}
		}
		var list []string
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				v.Values = nil
				for _, name := range v.Names {
					list = append(list, text(&ast.GenDecl{Tok: d.Tok, Specs: []ast.Spec{&ast.ValueSpec{Names: []*ast.Ident{name}, Type: v.Type}}}))
				}
				continue
			}
			list = append(list, text(&ast.GenDecl{Tok: d.Tok, Specs: []ast.Spec{spec}}))
		}
		return list
	}
	panic(fmt.Sprintf("apicheck: a declaration of type %T", decl))
}

// receiver is the name of a method's type.
func receiver(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr: // with a type parameter
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	panic(fmt.Sprintf("apicheck: a receiver of type %T", expr))
}

// text prints a node, without blank lines and columns: those change with the comments around them.
func text(node any) string {
	var b strings.Builder
	if err := printer.Fprint(&b, fset, node); err != nil {
		panic(err) // a builder takes all
	}
	var lines strings.Builder
	for line := range strings.Lines(b.String()) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, "\t"))
		lines.WriteString(strings.Repeat("\t", indent) + strings.Join(words, " ") + "\n")
	}
	return lines.String()
}

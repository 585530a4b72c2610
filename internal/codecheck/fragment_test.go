package codecheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	leftOutLine   = regexp.MustCompile(`(?m)^([ \t]*)…([ \t]*(?://.*)?)$`)
	leftOutBraces = regexp.MustCompile(`\{[ \t]*…[ \t]*\}`)
)

// parseBlock makes a file of a block. Positions are positions in the page.
func parseBlock(fset *token.FileSet, b block) (*ast.File, error) {
	b.code = leftOutLine.ReplaceAllString(b.code, `${1}panic("…")${2}`)
	b.code = leftOutBraces.ReplaceAllString(b.code, `{ panic("…") }`)
	text := fmt.Sprintf("//line %s:%d\n%s", b.page, b.line, b.code)
	if !strings.HasPrefix(strings.TrimSpace(b.code), "package ") {
		text = fileOf(b)
	}
	f, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
	if err != nil && strings.Contains(err.Error(), "…") {
		err = fmt.Errorf("%w; … may only be alone on its line, or alone between braces", err)
	}
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "_" {
			fn.Body.List = alternatives(fn.Body.List)
		}
	}
	return f, nil
}

// fileOf puts the parts of a fragment where they belong in a file.
func fileOf(b block) string {
	statements := []byte(b.code)
	var imports, declarations strings.Builder
	for _, p := range split(b.code) {
		to := &declarations
		switch p.kind {
		case token.IMPORT:
			to = &imports
		case token.FUNC, token.TYPE:
		default:
			continue
		}
		fmt.Fprintf(to, "//line %s:%d\n%s\n", b.page, b.line+strings.Count(b.code[:p.from], "\n"), b.code[p.from:p.to])
		for i := p.from; i < p.to; i++ {
			if statements[i] != '\n' {
				statements[i] = ' '
			}
		}
	}
	text := "package page\n" + imports.String() + declarations.String()
	if len(strings.TrimSpace(string(statements))) > 0 {
		text += fmt.Sprintf("func _() error {\n//line %s:%d\n%s\nreturn nil\n}\n", b.page, b.line, statements)
	}
	return text
}

// part is a declaration or a statement of a fragment. Its kind is IMPORT, TYPE or FUNC for what must
// be outside of functions.
type part struct {
	kind     token.Token
	from, to int
}

// split finds the parts of a fragment. Comments before a part belong to it.
func split(code string) (parts []part) {
	var (
		s     scanner.Scanner
		fset  = token.NewFileSet()
		file  = fset.AddFile("", -1, len(code))
		depth int
		now   part
		begin []token.Token // of this part
	)
	s.Init(file, []byte(code), nil, 0)
	for {
		pos, tok, _ := s.Scan()
		switch tok {
		case token.LPAREN, token.LBRACE, token.LBRACK:
			depth++
		case token.RPAREN, token.RBRACE, token.RBRACK:
			depth--
		}
		if depth == 0 && tok == token.SEMICOLON || tok == token.EOF {
			now.kind, now.to = kindOf(begin), min(file.Offset(pos)+1, len(code))
			parts = append(parts, now)
			now, begin = part{from: now.to}, nil
		} else if depth == 0 {
			begin = append(begin, tok)
		}
		if tok == token.EOF {
			return parts
		}
	}
}

// kindOf looks at the tokens of a part that are in no braces or parentheses; of these, the closing
// one is there. A function has a name before its parameters, and a method has a receiver too.
func kindOf(begin []token.Token) token.Token {
	if len(begin) == 0 {
		return token.ILLEGAL
	}
	named := len(begin) > 1 && begin[1] == token.IDENT
	method := len(begin) > 3 && begin[1] == token.RPAREN && begin[2] == token.IDENT && begin[3] == token.RPAREN
	if begin[0] == token.FUNC && !named && !method {
		return token.ILLEGAL // a literal
	}
	return begin[0]
}

func TestSplit(t *testing.T) {
	code := "import \"os\"\n// A comment.\nfunc f() {\n\tg()\n}\nfunc (x T) m() error { return nil }\ntype T int\nfunc() error { return nil }()\nx := f()\n"
	var kinds []token.Token
	for _, p := range split(code) {
		kinds = append(kinds, p.kind)
	}
	want := []token.Token{token.IMPORT, token.FUNC, token.FUNC, token.TYPE, token.ILLEGAL, token.IDENT, token.ILLEGAL}
	if !slices.Equal(kinds, want) {
		t.Errorf("split found %v, want %v", kinds, want)
	}
}

// alternatives opens a scope before a statement that declares only what is declared before. So two
// ways to write the same thing may follow each other.
func alternatives(list []ast.Stmt) []ast.Stmt {
	declared := make(map[string]bool)
	for i, s := range list {
		a, ok := s.(*ast.AssignStmt)
		if !ok || a.Tok != token.DEFINE {
			continue
		}
		again := true
		for _, left := range a.Lhs {
			name, ok := left.(*ast.Ident)
			again = again && ok && (name.Name == "_" || declared[name.Name])
		}
		if again {
			scope := &ast.BlockStmt{Lbrace: s.Pos(), List: alternatives(list[i:]), Rbrace: list[len(list)-1].End()}
			return append(list[:i:i], scope, &ast.ReturnStmt{Results: []ast.Expr{ast.NewIdent("nil")}})
		}
		for _, left := range a.Lhs {
			declared[left.(*ast.Ident).Name] = true
		}
	}
	return list
}

package codecheck

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the repository.
const root = "../.."

// block is code of a page, without its fence.
type block struct {
	page   string // relative to the root
	line   int    // of its first line of code
	lang   string
	code   string
	module string // the folder of the module that has what the block imports
	skip   string // why it isn't checked
}

// page is a Markdown file.
type page struct {
	name   string
	blocks []block // fenced
	prose  []block // each other line
}

var (
	fence     = regexp.MustCompile("^( *)(```+|~~~+) *([a-z]*)")
	directive = regexp.MustCompile(`^ *<!-- codecheck: (module|skip:) *(.*?) *-->`)
)

// newPage splits a Markdown text.
func newPage(name, text string) page {
	p := page{name: name}
	var (
		open   string // the mark that ends the present block
		indent string
		now    block
		next   block // what a directive says of the next block
	)
	number := 0
	for l := range strings.Lines(text) {
		number++
		l = strings.TrimRight(l, "\r\n")
		mark := fence.FindStringSubmatch(l)
		d := directive.FindStringSubmatch(l)
		switch {
		case open != "" && mark != nil && strings.HasPrefix(mark[2], open) && mark[3] == "":
			p.blocks = append(p.blocks, now)
			open = ""
		case open != "":
			now.code += strings.TrimPrefix(l, indent) + "\n"
		case mark != nil:
			open, indent = mark[2], mark[1]
			now = block{page: name, line: number + 1, lang: mark[3], module: next.module, skip: next.skip}
			next = block{}
		case d != nil && d[1] == "module":
			next.module = d[2]
		case d != nil:
			next.skip = d[2]
		default:
			next = block{}
			p.prose = append(p.prose, block{page: name, line: number, code: l})
		}
	}
	return p
}

// pages returns README.md and docs/*.md.
func pages(t *testing.T) []page {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, filepath.Join(root, "README.md"))
	var all []page
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		short, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, newPage(filepath.ToSlash(short), string(text)))
	}
	if len(all) < 10 {
		t.Fatalf("found %d pages below %s, want all of the repository", len(all), root)
	}
	return all
}

func TestPage(t *testing.T) {
	p := newPage("x.md", "a\n<!-- codecheck: skip: it is old -->\n```go\nf()\n```\n- b\n  ```\n  locker ls\n  ```\n")
	want := []block{
		{page: "x.md", line: 4, lang: "go", code: "f()\n", skip: "it is old"},
		{page: "x.md", line: 8, code: "locker ls\n"},
	}
	if !slices.Equal(p.blocks, want) {
		t.Errorf("blocks = %+v, want %+v", p.blocks, want)
	}
	if len(p.prose) != 2 || p.prose[1].code != "- b" || p.prose[1].line != 6 {
		t.Errorf("prose = %+v, want two lines", p.prose)
	}
}

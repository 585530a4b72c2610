package doccheck

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// root is the folder of the repository.
const root = "../.."

// line is a line of a page outside of fenced code. Its number begins with 1.
type line struct {
	number int
	text   string
}

// page is a Markdown file. Its name is relative to the root, with slashes.
type page struct {
	name  string
	text  string
	prose []line
}

var fence = regexp.MustCompile("^ *(```+|~~~+)")

// newPage splits a Markdown text.
func newPage(name, text string) page {
	p := page{name: name, text: text}
	open := ""
	number := 0
	for l := range strings.Lines(text) {
		number++
		l = strings.TrimRight(l, "\r\n")
		mark := strings.TrimSpace(fence.FindString(l))
		switch {
		case open == "" && mark != "":
			open = mark
		case open != "" && strings.HasPrefix(mark, open):
			open = ""
		case open == "":
			p.prose = append(p.prose, line{number, l})
		}
	}
	return p
}

func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return newPage(name, string(text))
}

// pages returns all Markdown files of the repository.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, name := range files(t, ".md") {
		all = append(all, readPage(t, name))
	}
	if len(all) < 10 {
		t.Fatalf("found %d pages below %s, want all of the repository", len(all), root)
	}
	return all
}

// files returns the names of all files whose names end with suffix, also in other modules.
// Hidden folders and test data are left out.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(e.Name(), ".") && name != "."
		if e.IsDir() && (hidden || e.Name() == "testdata") {
			return fs.SkipDir
		}
		if !e.IsDir() && path.Ext(name) == suffix {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var (
	heading    = regexp.MustCompile(`^#{1,6} +(.+?)(?: +#+)?$`)
	linkText   = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	htmlAnchor = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// anchors returns the anchors of a page, made from its headings as GitHub does.
func (p page) anchors() []string {
	var all []string
	for _, l := range p.prose {
		for _, m := range htmlAnchor.FindAllStringSubmatch(l.text, -1) {
			all = append(all, m[1])
		}
		m := heading.FindStringSubmatch(l.text)
		if m == nil {
			continue
		}
		anchor := anchorOf(m[1])
		for i, base := 1, anchor; slices.Contains(all, anchor); i++ {
			anchor = base + "-" + strconv.Itoa(i)
		}
		all = append(all, anchor)
	}
	return all
}

func anchorOf(heading string) string {
	heading = linkText.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, heading)
}

// The anchors are those that GitHub makes.
func TestAnchors(t *testing.T) {
	p := newPage("x.md", "# The `x` of [a](b), c & d\n## Same\n```\n# no heading\n```\n## Same\n### ZooKeeper's 3.9: don't\n")
	want := []string{"the-x-of-a-c--d", "same", "same-1", "zookeepers-39-dont"}
	if got := p.anchors(); !slices.Equal(got, want) {
		t.Errorf("anchors = %q, want %q", got, want)
	}
}

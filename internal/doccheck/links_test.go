package doccheck

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// Every relative link leads to a file, and every anchor to a heading of that file.
func TestLinks(t *testing.T) {
	all := pages(t)
	count := 0
	for _, p := range all {
		for _, l := range p.prose {
			for _, m := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(l.text, ""), -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				count++
				if why := follow(all, p.name, m[1]); why != "" {
					t.Errorf("%s:%d: the link %s %s", p.name, l.number, m[1], why)
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("found %d relative links, want the blocks of all pages", count)
	}
}

// follow says what is wrong with a link of a page, or nothing.
func follow(all []page, from, target string) string {
	file, anchor, _ := strings.Cut(target, "#")
	name := from
	if file != "" {
		name = path.Join(path.Dir(from), file)
	}
	if strings.HasPrefix(name, "../") {
		return "leaves the repository"
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
		return "leads to no file"
	}
	if anchor == "" {
		return ""
	}
	i := slices.IndexFunc(all, func(p page) bool { return p.name == name })
	switch {
	case i < 0:
		return "has an anchor, and leads to no page"
	case !slices.Contains(all[i].anchors(), anchor):
		return "has an anchor that the page doesn't have"
	}
	return ""
}

// Links that lead nowhere are found.
func TestFollow(t *testing.T) {
	all := []page{newPage("README.md", "# One\n"), newPage("docs/redis.md", "# Keys\n")}
	for target, ok := range map[string]bool{
		"docs/redis.md":      true,
		"docs/redis.md#keys": true,
		"#one":               true,
		"locker.go":          true,
		"docs/redis.md#no":   false,
		"#no":                false,
		"docs/no.md":         false,
		"../elsewhere.md":    false,
		"locker.go#L12":      false,
	} {
		if why := follow(all, "README.md", target); (why == "") != ok {
			t.Errorf("follow(%q) = %q, want an error: %v", target, why, !ok)
		}
	}
}

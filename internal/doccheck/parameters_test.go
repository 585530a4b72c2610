package doccheck

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	parameterOfComment = regexp.MustCompile(`(?m)^//\t([a-z_]+(?:, [a-z_]+)*)  +\S`)
	parameterOfTable   = regexp.MustCompile("(?m)^\\| (`[a-z_]+`(?:, `[a-z_]+`)*) \\|")
)

// The package documentation of a backend and its page list the same parameters of URLs, in the same order.
func TestParameters(t *testing.T) {
	for page, pkg := range map[string]string{
		"redis": "redisbackend", "redlock": "redlockbackend", "etcd": "etcdbackend", "zookeeper": "zkbackend", "postgres": "pgbackend",
	} {
		t.Run(page, func(t *testing.T) {
			comment := parametersIn(t, pkg+"/"+pkg+".go", "each with its default", "// #", parameterOfComment)
			table := parametersIn(t, "docs/"+page+".md", "\n| parameter |", "\n\n", parameterOfTable)
			if len(comment) < 3 || !slices.Equal(comment, table) {
				t.Errorf("the package documentation of %s has the parameters\n%q, and docs/%s.md has\n%q", pkg, comment, page, table)
			}
		})
	}
}

// parametersIn returns the names of parameters in the part of a file that begins and ends with these texts.
func parametersIn(t *testing.T, file, begins, ends string, row *regexp.Regexp) (names []string) {
	t.Helper()
	_, part, _ := strings.Cut(readPage(t, file).text, begins)
	part, _, _ = strings.Cut(part, ends)
	for _, m := range row.FindAllStringSubmatch(part, -1) {
		names = append(names, strings.Split(strings.ReplaceAll(m[1], "`", ""), ", ")...)
	}
	return names
}

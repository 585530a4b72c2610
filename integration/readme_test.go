package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/redisbackend"
)

// The matrix in the README is what the code says of itself.
func TestReadmeMatrix(t *testing.T) {
	const begin, end = "<!-- matrix: locker matrix --format markdown -->\n", "\n<!-- end of matrix -->"
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok1 := strings.Cut(string(text), begin)
	got, _, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("README.md has no place for the matrix")
	}
	want := locker.MarkdownHeader()
	for _, g := range []locker.Guarantees{membackend.Guarantees(), filebackend.Guarantees(), redisbackend.Guarantees()} {
		want += "\n" + g.MarkdownRow()
	}
	if got != want {
		t.Errorf("the matrix in README.md is not that of the code, which is:\n%s", want)
	}
}

// Package matrix lists guarantees in words: the rows of the matrix, as the command prints it and
// docs/guarantees.md shows it.
package matrix

import (
	"fmt"
	"strings"

	"github.com/fencedlock/locker"
)

// Field is one guarantee in words: a column of the matrix.
type Field struct{ Name, Value string }

// Fields lists all guarantees in the order of [locker.Guarantees.String], without the backend's name and
// the reason.
func Fields(g locker.Guarantees) []Field {
	return []Field{
		{"scope", g.Scope.String()},
		{"fault tolerance", g.Tolerance.String()},
		{"mutual exclusion", g.Exclusion.String()},
		{"fencing", g.Fencing.String()},
		{"clocks assumed", g.Clocks.String()},
		{"order", g.Order.String()},
		{"waiting", g.Waiting.String()},
		{"dead holder ends by", g.Expiry.String()},
		{"revocation", g.Revocation.String()},
		{"restart leaves", g.Restart.String()},
		{"inspection", g.Inspection.String()},
		{"break", g.Break.String()},
		{"round trips", fmt.Sprint(g.RoundTrips)},
		{"operational cost", g.Cost.String()},
	}
}

// MarkdownRow is the backend's row of the matrix, in the order of [MarkdownHeader].
func MarkdownRow(g locker.Guarantees) string {
	cells := []string{g.Backend}
	for _, f := range Fields(g) {
		cells = append(cells, f.Value)
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// MarkdownHeader is the two lines above the rows of the matrix.
func MarkdownHeader() string {
	head := "| backend |"
	rule := "|---|"
	for _, f := range Fields(locker.Guarantees{}) {
		head += " " + f.Name + " |"
		rule += "---|"
	}
	return head + "\n" + rule
}

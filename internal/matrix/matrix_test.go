package matrix_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/matrix"
)

var strong = locker.Guarantees{
	Backend: "strong", Scope: locker.ScopeNetwork, Tolerance: locker.ToleranceMinority, Exclusion: locker.ExclusionConsensus,
	Fencing: locker.FencingDurable, Clocks: locker.ClocksSpeed, Order: locker.OrderFIFO, Waiting: locker.WaitingHandOff,
	Expiry:     locker.Expiry{By: locker.ExpirySession, TTL: true, Slack: 3 * time.Second},
	Revocation: locker.RevocationAtOnce, Restart: locker.RestartLeases, Inspection: locker.InspectionQueue, Break: locker.BreakSeenAtOnce, RoundTrips: 1, Cost: locker.CostHigh,
}

func TestMarkdown(t *testing.T) {
	const row = "| strong | network | minority of servers | consensus | durable | speed only | FIFO | hand-off | session, TTL + 3s | seen at once | leases and tokens | holder and queue | seen at once | 1 | high |"
	if got := matrix.MarkdownRow(strong); got != row {
		t.Errorf("MarkdownRow =\n%s\nwant\n%s", got, row)
	}
	header := strings.Split(matrix.MarkdownHeader(), "\n")
	if len(header) != 2 || strings.Count(header[0], "|") != strings.Count(row, "|") || strings.Count(header[1], "|") != strings.Count(row, "|") {
		t.Errorf("MarkdownHeader = %q: not two lines with the columns of a row", header)
	}
}

// Every field of the struct but the backend's name and the reason is a column, and the zero value promises nothing.
func TestFieldsAreComplete(t *testing.T) {
	zero := locker.Guarantees{}
	if got, want := len(matrix.Fields(zero)), reflect.TypeFor[locker.Guarantees]().NumField()-2; got != want {
		t.Errorf("%d fields are shown, want %d", got, want)
	}
	names := make(map[string]bool)
	for _, f := range matrix.Fields(zero) {
		if f.Value != "unstated" && f.Name != "round trips" {
			t.Errorf("the zero value of %q says %q", f.Name, f.Value)
		}
		if names[f.Name] {
			t.Errorf("two fields are called %q", f.Name)
		}
		names[f.Name] = true
	}
}

// A locker's own text says the same as the matrix, in the same order.
func TestFieldsAreThoseOfString(t *testing.T) {
	for _, g := range []locker.Guarantees{{Backend: "silent"}, strong} {
		var parts []string
		for _, f := range matrix.Fields(g) {
			parts = append(parts, f.Name+": "+f.Value)
		}
		if want := g.Backend + ": " + strings.Join(parts, "; "); g.String() != want {
			t.Errorf("String =\n%s\nand the matrix has\n%s", g, want)
		}
	}
}

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/matrix"
)

var update = flag.Bool("update", false, "write the golden files again")

// sample has more backends than fit side by side, short words and long ones.
func sample() []locker.Guarantees {
	low := locker.Guarantees{
		Backend:    "low",
		Scope:      locker.ScopeProcess,
		Tolerance:  locker.ToleranceNone,
		Exclusion:  locker.ExclusionSingleNode,
		Fencing:    locker.FencingUntilDataLoss,
		Clocks:     locker.ClocksAll,
		Order:      locker.OrderNone,
		Waiting:    locker.WaitingPolled,
		Expiry:     locker.Expiry{By: locker.ExpiryProcess},
		Revocation: locker.RevocationUnseen,
		Restart:    locker.RestartNothing,
		Inspection: locker.InspectionNone,
		Break:      locker.BreakNone,
		Cost:       locker.CostNone,
	}
	high := locker.Guarantees{
		Backend:    "high",
		Scope:      locker.ScopeNetwork,
		Tolerance:  locker.ToleranceMinority,
		Exclusion:  locker.ExclusionConsensus,
		Fencing:    locker.FencingDurable,
		Clocks:     locker.ClocksSpeed,
		Order:      locker.OrderFIFO,
		Waiting:    locker.WaitingHandOff,
		Expiry:     locker.Expiry{By: locker.ExpirySession, TTL: true, Slack: 1500 * time.Millisecond},
		Revocation: locker.RevocationAtOnce,
		Restart:    locker.RestartLeases,
		Inspection: locker.InspectionQueue,
		Break:      locker.BreakSeenAtOnce,
		RoundTrips: 1,
		Cost:       locker.CostHigh,
	}
	return []locker.Guarantees{low, high, {Backend: "silent"}, low, high}
}

func TestMatrixGolden(t *testing.T) {
	for format, file := range map[string]string{"text": "matrix.txt", "markdown": "matrix.md", "json": "matrix.json"} {
		got := matrixFormats[format](sample())
		path := filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", format, got, want)
		}
	}
	for line := range strings.Lines(matrixText(sample())) {
		if n := len([]rune(line)); n > 100 {
			t.Errorf("a line has %d characters: %q", n, line)
		}
	}
}

func TestMatrixShowsEveryBackend(t *testing.T) {
	_, text, _ := runToEnd(t, environ(t), "matrix")
	_, markdown, _ := runToEnd(t, environ(t), "matrix", "--format", "markdown")
	_, asJSON, _ := runToEnd(t, environ(t), "matrix", "--format=json")
	var objects []matrixRow
	if err := json.Unmarshal([]byte(asJSON), &objects); err != nil {
		t.Fatal(err)
	}
	if len(objects) != len(backends) {
		t.Fatalf("JSON has %d backends, want %d", len(objects), len(backends))
	}
	heads := ""
	for block := range strings.SplitSeq(text, "\n\n") {
		head, _, _ := strings.Cut(block, "\n")
		heads += head
	}
	for i, guarantees := range backends {
		g := guarantees()
		if o := objects[i]; o.Backend != g.Backend || o.RoundTrips != g.RoundTrips || o.DeadHolderEndsBy.TTL != g.Expiry.TTL {
			t.Errorf("JSON object %d = %v, want that of %v", i, o, g)
		}
		if strings.Contains(asJSON, "unstated") {
			t.Errorf("a guarantee has a value without a name: %s", asJSON)
		}
		if !strings.Contains(heads, " "+g.Backend) {
			t.Errorf("text has the heads %q, want %s in them", heads, g.Backend)
		}
		if !strings.Contains(markdown, "\n"+matrix.MarkdownRow(g)+"\n") {
			t.Errorf("Markdown lacks the row of %s", g.Backend)
		}
	}
}

// The values in JSON are the ones that --require accepts after the guarantee's name.
func TestMatrixJSONHasTheNamesOfRequirements(t *testing.T) {
	for _, r := range requirements {
		field, value, _ := strings.Cut(r.name, "-")
		met := false
		for _, row := range everyValue() {
			if r.req.Check(row) != nil {
				continue
			}
			var rows []matrixRow
			if err := json.Unmarshal([]byte(matrixJSON([]locker.Guarantees{row})), &rows); err != nil {
				t.Fatal(err)
			}
			have, known := map[string]string{
				"scope": rows[0].Scope, "tolerance": rows[0].FaultTolerance, "exclusion": rows[0].MutualExclusion, "fencing": rows[0].Fencing,
				"clocks": rows[0].ClocksAssumed, "order": rows[0].Order, "waiting": rows[0].Waiting, "revocation": rows[0].Revocation,
				"restart": rows[0].RestartLeaves, "inspection": rows[0].Inspection, "break": rows[0].Break,
			}[field]
			if known && !met && have != value {
				t.Errorf("--require %s: the first value that meets it is %q in JSON", r.name, have)
			}
			met = true
		}
	}
}

// everyValue has the guarantees from the least to the most, one step at a time in all fields.
func everyValue() []locker.Guarantees {
	var rows []locker.Guarantees
	for n := 1; n <= 5; n++ {
		rows = append(rows, locker.Guarantees{
			Scope: locker.Scope(n), Tolerance: locker.Tolerance(n), Exclusion: locker.Exclusion(n), Fencing: locker.Fencing(n), Clocks: locker.Clocks(n),
			Order: locker.Order(n), Waiting: locker.Waiting(n), Revocation: locker.Revocation(n), Restart: locker.Restart(n),
			Inspection: locker.Inspection(n), Break: locker.Breaking(n),
		})
	}
	return rows
}

func TestMatrixReportsFailedOutput(t *testing.T) {
	cmd := newRoot()
	cmd.SetArgs([]string{"matrix"})
	cmd.SetOut(fullDevice{})
	var stderr strings.Builder
	if code := report(&stderr, cmd.Execute()); code != exitOutput || stderr.String() != "locker: device is full\n" {
		t.Errorf("code %d, stderr %q, want %d and the reason", code, stderr.String(), exitOutput)
	}
}

type fullDevice struct{}

func (fullDevice) Write([]byte) (int, error) { return 0, errors.New("device is full") }

package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker/internal/chart"
)

var update = flag.Bool("update", false, "write the charts in testdata and docs/benchmarks and the tables of docs/benchmarks.md again")

func ptr(v float64) *float64 { return &v }

// chartRows has figures of each kind: a ratio, a value, one that is missing, one beyond the longest
// bar, and some that no chart shows.
var chartRows = []row{
	{Backend: "redis", Peer: thisProject, Scenario: loadName(1), Metric: "throughput", Value: ptr(7000), Ratio: ptr(0.94), To: "raw scripts"},
	{Backend: "redis", Peer: "rueidislock", Scenario: loadName(1), Metric: "throughput", Ratio: ptr(1.5), To: "raw scripts"},
	{Backend: "redis", Peer: redsyncName, Scenario: loadName(1), Metric: "throughput", Missing: "± 59 %"},
	{Backend: "redis", Peer: "raw scripts", Scenario: loadName(1), Metric: "throughput", Value: ptr(7150)},
	{Backend: "redis", Peer: thisProject, Scenario: loadName(8), Metric: "throughput", Ratio: ptr(9), To: "raw scripts"},
	{Backend: "redis", Peer: thisProject, Scenario: loadName(1), Metric: "p99", Ratio: ptr(9), To: "raw scripts"},
	{Backend: "postgres", Peer: "pglock", Scenario: handOffName(64), Metric: "gap, median", Ratio: ptr(655.55), To: "SELECT 1 alone"},
	{Backend: "postgres", Peer: thisProject, Scenario: handOffName(64), Metric: "gap, median", Ratio: ptr(4.03), To: "SELECT 1 alone"},
	{Backend: "postgres", Peer: pgByHand, Scenario: handOffName(64), Metric: "gap, median", Ratio: ptr(2.47), To: "SELECT 1 alone"},
	{Backend: "etcd", Peer: thisProject, Scenario: handOffName(16), Metric: "Jain index", Value: ptr(0.9987)},
	{Backend: "etcd", Peer: thisProject, Scenario: heldLeasesName, Metric: "heap", Unit: "MB", Value: ptr(9.77)},
}

func TestChartsShowWhatTheRowsHave(t *testing.T) {
	all := charts(chartRows)
	for file, short := range map[string]string{
		"throughput.svg": "redis, 1, locker: 0.94; redis, 1, rueidislock: 1.50; redis, 1, redsync: –.",
		"hand-off.svg":   "postgres, 64, locker: 4.03; postgres, 64, pglock: 655.55; postgres, 64, advisory lock: 2.47.",
		"fairness.svg":   "etcd, 16, locker: 99.9.",
		"memory.svg":     "etcd, locker: 9.77.",
	} {
		if all[file].Short != short {
			t.Errorf("%s shows %q, want %q", file, all[file].Short, short)
		}
	}
	if len(all) != 4 {
		t.Errorf("%d charts, want 4: none without a figure", len(all))
	}
	bars := all["throughput.svg"].Groups[0].Bars
	kinds := []chart.Kind{bars[0].Kind, bars[1].Kind, bars[2].Kind}
	if want := []chart.Kind{chart.Good, chart.Other, chart.None}; !slices.Equal(kinds, want) {
		t.Errorf("the bars are drawn as %q, want %q: nothing for a figure that is missing", kinds, want)
	}
	if cut := all["hand-off.svg"].Groups[0].Bars[1]; cut.To != 15 {
		t.Errorf("the bar of 655.55 reaches to %v, want 15", cut.To)
	}
}

// TestChartGolden compares one chart with the one in testdata.
func TestChartGolden(t *testing.T) {
	wantFile(t, filepath.Join("testdata", "throughput.svg"), charts(chartRows)["throughput.svg"].SVG())
}

const (
	docsFolder = "../docs/benchmarks"
	docsPage   = "../docs/benchmarks.md"
)

// readPage returns docs/benchmarks.md, and the figures that it shows.
func readPage(t *testing.T) (page string, rows []row) {
	t.Helper()
	rows, err := readJSON([]string{filepath.Join(docsFolder, "results.json")})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), rows
}

// The charts of docs/benchmarks.md show the figures next to them, and the page shows each
// with its text.
func TestChartsOfThePage(t *testing.T) {
	page, rows := readPage(t)
	all := charts(rows)
	for _, file := range slices.Sorted(maps.Keys(all)) {
		wantFile(t, filepath.Join(docsFolder, file), all[file].SVG())
		if link := "](benchmarks/" + file + ")"; strings.Count(page, link) != 1 {
			t.Errorf("docs/benchmarks.md doesn't show %s once", file)
		}
	}
	if len(all) != len(plots) {
		t.Errorf("%d charts, want %d", len(all), len(plots))
	}
}

func TestPresent(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "results.json")
	if err := writeJSON(file, chartRows); err != nil {
		t.Fatal(err)
	}
	if err := present(dir, "", []string{file, file}); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "throughput.svg"))
	if err != nil || string(svg) != charts(chartRows)["throughput.svg"].SVG() {
		t.Errorf("the chart that was written doesn't show the rows: %v", err)
	}
	if err := present("", "", []string{file}); err == nil {
		t.Error("present without a folder and a page = nil, want an error")
	}
	if err := os.WriteFile(file, []byte(`{"backend": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := present(dir, "", []string{file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("present of another JSON = %v, want an error with the name of the file", err)
	}
}

// wantFile compares text with a file, which -update writes.
func wantFile(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("the chart differs from %s; write it again with -update if that is wanted, and look at it", file)
	}
}

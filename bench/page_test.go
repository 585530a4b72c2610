package main

import (
	"os"
	"strings"
	"testing"
)

// pageRows have some of what a table shows, and some of what is missing.
var pageRows = []row{
	{Backend: "redis", Peer: "raw scripts", Scenario: loadName(4), Metric: "throughput", Value: ptr(56912.3)},
	{Backend: "redis", Peer: thisProject, Scenario: loadName(4), Metric: "throughput", Ratio: ptr(0.594), Low: ptr(0.54), High: ptr(0.62), To: "raw scripts", Verdict: "≥ 0.9×: missed"},
	{Backend: "redis", Peer: "redsync", Scenario: loadName(4), Metric: "throughput", Missing: "± 59 %"},
	{Backend: "redis", Peer: "redislock", Scenario: loadName(4), Metric: "throughput", Missing: "given up after 7.7s"},
	{Backend: "redis", Peer: thisProject, Scenario: loadName(4), Metric: "requests an operation", Value: ptr(2.0)},
	{Backend: "redis", Peer: thisProject, Scenario: handOffName(2), Metric: "gap, median", Ratio: ptr(1.756), Low: ptr(1.7), High: ptr(1.8), To: "PING alone", Verdict: "≤ 1.75×: missed, within the noise"},
	{Backend: "redis", Peer: thisProject, Scenario: handOffName(16), Metric: "gap, median", Ratio: ptr(1.6), Low: ptr(1.6), High: ptr(1.6), To: "PING alone", Verdict: "≤ 1.75×: met"},
	{Backend: "redis", Peer: thisProject, Scenario: waitersName(1), Metric: "requests a grant", Value: ptr(6254.0), Unit: ""},
	{Backend: "etcd", Peer: thisProject, Scenario: heldLeasesName, Metric: "heap", Value: ptr(11.66), Unit: "MB"},
}

func TestReplaceTables(t *testing.T) {
	const page = `# Page

| many | another table |
|---|---|

### Redis

| goroutines | by hand, a second |
|---|---|
| 1 | old |

Text.

| many | locker | goal |
|---|---|---|
| old | 1 | |
| other | table |

### Redlock

| many | locker | goal |
|---|---|---|
| stays | 1 | |
`
	got := replaceTables(page, pageRows)
	want := strings.NewReplacer("| goroutines | by hand, a second |\n|---|---|\n| 1 | old |\n",
		`| goroutines | by hand, a second | locker | goal | redislock | redsync | locker: p99 | CPU of the client | of the server | requests |
|---|---|---|---|---|---|---|---|---|---|
| 4 | 56,900 | 0.59 ± 9 % | ≥ 0.9×: **missed** | given up after 7.7s | – (± 59 %) |  |  |  | 2 |
`, "| old | 1 | |\n| other | table |\n", "| 10,000 waiters in one Locker: requests a grant | 6,250 |  |\n").Replace(page)
	if got != want {
		t.Errorf("replaceTables = \n%s, want\n%s", got, want)
	}
}

func TestHandOffTable(t *testing.T) {
	got := narrowMarkdown(figuresOf(pageRows, "redis").handOffTable())
	want := "| hand-off, contenders | 2 | 16 | 64 | goal |\n|---|---|---|---|---|\n" +
		"| gap, median, × PING: locker | 1.76 ± 3 % | 1.60 ± 0 % |  | ≤ 1.75×: **missed**, within the noise; ≤ 1.75×: met |\n"
	if !strings.HasPrefix(got, want) {
		t.Errorf("the table begins with\n%s, want\n%s", got, want)
	}
}

func TestThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 2: "2", 0.03024: "0.0302", 93.77: "93.8", 203.4: "203", 999.4: "999", 999.6: "1,000", 8613.2: "8,610", 56912: "56,900", 10000: "10,000", 1234567: "1,230,000",
	} {
		if got := threeDigits(v); got != want {
			t.Errorf("threeDigits(%v) = %q, want %q", v, got, want)
		}
	}
}

// The tables of docs/benchmarks.md show the figures of its results.json.
func TestTablesOfThePage(t *testing.T) {
	page, rows := readPage(t)
	text := replaceTables(page, rows)
	if *update {
		if err := os.WriteFile(docsPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != page {
		t.Error("the tables differ from the figures of results.json; write them again with -update if that is wanted, and look at them")
	}
}

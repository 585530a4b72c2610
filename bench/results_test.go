package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

const (
	otherPeer = "peer"
	scenario  = "work"
)

var sampleMetric = metric{name: "time", unit: "µs", baseline: "bare"}

// sampleResults has seven rounds of this project and of another peer. This project takes twice the
// bare 10, and half of the time of the peer, whose third round failed.
func sampleResults(goals ...goal) *results {
	r := &results{name: "test", goals: goals}
	for round := range 7 {
		noise := float64(round) / 100 // of the machine: the same for all peers of a round
		if round != 2 {
			r.add(otherPeer, scenario, round, sampleMetric, 40+noise, 10)
		}
		r.add(thisProject, scenario, round, sampleMetric, 20+noise, 10)
	}
	return r
}

func TestResultsKeepRoundsApart(t *testing.T) {
	f := sampleResults().find(otherPeer, scenario, sampleMetric.name)
	if len(f.values) != 7 || !math.IsNaN(f.values[2]) || f.values[3] != 40.03 || f.ratios[3] != 4.003 {
		t.Errorf("values %v and ratios %v, want seven rounds, NaN in the third, and 40.03 and its ratio in the fourth", f.values, f.ratios)
	}
}

func TestGoals(t *testing.T) {
	for _, tc := range []struct {
		goal goal
		want string
	}{
		{goal{limit: 20}, "≤ 20: missed, within the noise"},
		{goal{limit: 21}, "≤ 21: met"},
		{goal{limit: 21, atLeast: true}, "≥ 21: missed"},
		{goal{limit: 2.1, ratio: true}, "≤ 2.1×: met"},
		{goal{limit: 1.9, ratio: true}, "≤ 1.9×: missed"},
		{goal{limit: 0.4, relativeTo: otherPeer}, "≤ 0.4 × peer (0.50): missed"},
		{goal{limit: 0.5, relativeTo: otherPeer, atLeast: true}, "≥ 0.5 × peer (0.50): met"},
	} {
		tc.goal.scenario, tc.goal.metric = scenario, sampleMetric.name
		r := sampleResults(tc.goal)
		v := r.judge(r.find(thisProject, scenario, sampleMetric.name))
		if v.String() != tc.want {
			t.Errorf("judge = %q, want %q", v, tc.want)
		}
		if v := r.judge(r.find(otherPeer, scenario, sampleMetric.name)); v != nil {
			t.Error("judge found a goal for the peer, want goals for this project only")
		}
	}
}

func TestGoalWithoutMeasurement(t *testing.T) {
	if err := sampleResults(goal{scenario: "another", metric: "speed"}).checkGoals(); err != nil {
		t.Errorf("checkGoals = %v for a scenario that was not run, want nil", err)
	}
	if err := sampleResults(goal{scenario: scenario, metric: "speed"}).checkGoals(); err == nil {
		t.Error("checkGoals = nil for a metric that the scenario doesn't measure, want an error")
	}
}

func TestSeveralGoals(t *testing.T) {
	r := sampleResults(
		goal{scenario: scenario, metric: sampleMetric.name, limit: 21},
		goal{scenario: scenario, metric: sampleMetric.name, limit: 0.4, relativeTo: otherPeer})
	v := r.judge(r.find(thisProject, scenario, sampleMetric.name))
	if want := "≤ 21: met; ≤ 0.4 × peer (0.50): missed"; v.String() != want || v.met() == nil || *v.met() {
		t.Errorf("judge = %q, met %v, want %q, not met", v, v.met(), want)
	}
}

// noisy has seven rounds of values around 20, which are apart by that many per cent, and a bare
// request of 10 in each.
func noisy(percent float64) *results {
	r := &results{name: "test", goals: []goal{{scenario: scenario, metric: sampleMetric.name, ratio: true, limit: 2.2}}}
	for round := range 7 {
		r.add(thisProject, scenario, round, sampleMetric, 20*(1+percent/100*float64(round-3)/3), 10)
	}
	return r
}

func TestWideBoundsAreNoFigure(t *testing.T) {
	for _, tc := range []struct {
		percent       float64
		cell, verdict string
	}{
		{5, "20 (2.00 ± 5 %)", "≤ 2.2×: met"},
		{14, "20 (2.00 ± 14 %)", "≤ 2.2×: met, within the noise"},
		{25, "(2.00 ± 25 %)", "≤ 2.2×: not measured, ± 25 %"}, // clearly more than 1, and no more
		{40, "not measured: ± 40 %", "≤ 2.2×: not measured, ± 40 %"},
	} {
		r := noisy(tc.percent)
		f := r.figures[0]
		if f.String() != tc.cell || r.judge(f).String() != tc.verdict {
			t.Errorf("± %g %%: %q and %q, want %q and %q", tc.percent, f, r.judge(f), tc.cell, tc.verdict)
		}
	}
	row := noisy(40).rows()[0]
	if row.Value != nil || row.Ratio != nil || row.Met != nil || row.Missing != "± 40 %" {
		t.Errorf("the row is %+v, want neither value nor ratio nor verdict, and why", row)
	}
}

func TestMissingPeer(t *testing.T) {
	r := sampleResults(goal{scenario: scenario, metric: sampleMetric.name, limit: 0.6, relativeTo: otherPeer})
	r.miss(otherPeer, scenario, sampleMetric, "given up after 2s")
	if got, want := r.find(otherPeer, scenario, sampleMetric.name).String(), "not measured: given up after 2s"; got != want {
		t.Errorf("the peer has %q, want %q", got, want)
	}
	own := r.find(thisProject, scenario, sampleMetric.name)
	if got, want := r.judge(own).String(), "≤ 0.6 × peer: not measured"; got != want {
		t.Errorf("judge = %q, want %q", got, want)
	}
}

func TestTable(t *testing.T) {
	var text strings.Builder
	if err := sampleResults(goal{scenario: scenario, metric: sampleMetric.name, limit: 2.5, ratio: true}).print(&text); err != nil {
		t.Fatal(err)
	}
	var cells []string
	for cell := range strings.SplitSeq(text.String()[strings.Index(text.String(), "| work"):], "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	want := []string{"", "work", "time, µs (× bare)", "40 (4.00 ± 0 %)", "20 (2.00 ± 0 %)", "≤ 2.5×: met", ""}
	if !slices.Equal(cells[:7], want) {
		t.Errorf("the table has %q, want %q", cells, want)
	}
}

func TestRows(t *testing.T) {
	rows := sampleResults(goal{scenario: scenario, metric: sampleMetric.name, limit: 2.5, ratio: true}).rows()
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	r := rows[1]
	if r.Backend != "test" || r.Peer != thisProject || *r.Value != 20.03 || r.Unit != "µs" || *r.Ratio != 2.003 || r.To != "bare" ||
		*r.Low != 2 || *r.High != 2.006 || r.Goal != "≤ 2.5×" || !*r.Met {
		t.Errorf("the row of this project is %+v", r)
	}
}

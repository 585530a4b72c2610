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

var sampleMetric = metric{"time", "µs", "bare"}

// sampleResults has seven rounds of this project and of another peer. This project takes twice the
// bare 10, and half of the time of the peer, whose third round failed.
func sampleResults(goals ...goal) *results {
	r := &results{backend: "test", goals: goals}
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
		{goal{limit: 20}, "≤ 20: **missed**, within the noise"},
		{goal{limit: 21}, "≤ 21: met"},
		{goal{limit: 21, atLeast: true}, "≥ 21: **missed**"},
		{goal{limit: 2.1, ratio: true}, "≤ 2.1×: met"},
		{goal{limit: 1.9, ratio: true}, "≤ 1.9×: **missed**"},
		{goal{limit: 0.4, relativeTo: otherPeer}, "≤ 0.4 × peer (0.50): **missed**"},
		{goal{limit: 0.5, relativeTo: otherPeer, atLeast: true}, "≥ 0.5 × peer (0.50): met"},
	} {
		tc.goal.scenario, tc.goal.metric = scenario, sampleMetric.name
		r := sampleResults(tc.goal)
		v, ok := r.judge(r.find(thisProject, scenario, sampleMetric.name))
		if !ok || v.String() != tc.want {
			t.Errorf("judge = %q, %v, want %q", v, ok, tc.want)
		}
		if _, ok := r.judge(r.find(otherPeer, scenario, sampleMetric.name)); ok {
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

func TestTable(t *testing.T) {
	var text strings.Builder
	if err := sampleResults(goal{scenario: scenario, metric: sampleMetric.name, limit: 2.5, ratio: true}).print(&text); err != nil {
		t.Fatal(err)
	}
	var cells []string
	for cell := range strings.SplitSeq(text.String()[strings.Index(text.String(), "| work"):], "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	want := []string{"", "work", "time, µs (× bare)", "40 (4.00 ±0 %)", "20 (2.00 ±0 %)", "≤ 2.5×: met", ""}
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
	if r.Backend != "test" || r.Peer != thisProject || r.Value != 20.03 || r.Unit != "µs" || *r.Ratio != 2.003 || r.To != "bare" ||
		*r.Low != 2 || *r.High != 2.006 || r.Goal != "≤ 2.5×" || !*r.Met {
		t.Errorf("the row of this project is %+v", r)
	}
}

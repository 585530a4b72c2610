package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
)

// metric is what is measured of a scenario.
type metric struct {
	name, unit string
	to         string // what the ratio compares a value with; empty: there is none
}

// figure is one metric of one peer in one scenario.
type figure struct {
	peer, scenario string
	metric         metric
	values, ratios []float64 // of each round
}

func (f *figure) value() float64 { return median(f.values) }
func (f *figure) ratio() float64 { return median(f.ratios) }

// goal is what this project is to reach in a scenario.
type goal struct {
	scenario, metric string
	ratio            bool // it is about the ratio, not the value
	atLeast          bool // instead of at most
	limit            float64
}

func (g goal) String() string {
	sign := "≤"
	if g.atLeast {
		sign = "≥"
	}
	if g.ratio {
		return fmt.Sprintf("%s %g×", sign, g.limit)
	}
	return fmt.Sprintf("%s %s", sign, number(g.limit))
}

// met judges the median, and forgives what is less than the table shows.
func (g goal) met(f *figure) bool {
	v := f.value()
	if g.ratio {
		v = f.ratio()
	}
	if g.atLeast {
		return v >= g.limit-0.005
	}
	return v <= g.limit+0.005
}

// results are the figures of one backend, in the order in which they came.
type results struct {
	backend string
	about   string
	subject string // the peer that has the goals
	goals   []goal
	figures []*figure
}

// add notes what a round has brought. A value that is no number was not to be measured in it; a ratio that is none has
// nothing to compare with.
func (r *results) add(peer, scenario string, m metric, value, ratio float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	f := r.find(peer, scenario, m.name)
	if f == nil {
		f = &figure{peer: peer, scenario: scenario, metric: m}
		r.figures = append(r.figures, f)
	}
	f.values = append(f.values, value)
	if m.to != "" && !math.IsNaN(ratio) && !math.IsInf(ratio, 0) {
		f.ratios = append(f.ratios, ratio)
	}
}

func (r *results) find(peer, scenario, metric string) *figure {
	i := slices.IndexFunc(r.figures, func(f *figure) bool {
		return f.peer == peer && f.scenario == scenario && f.metric.name == metric
	})
	if i < 0 {
		return nil
	}
	return r.figures[i]
}

// goal returns the goal that f has to reach, if there is one.
func (r *results) goal(f *figure) (goal, bool) {
	i := slices.IndexFunc(r.goals, func(g goal) bool {
		return f.peer == r.subject && f.scenario == g.scenario && f.metric.name == g.metric
	})
	if i < 0 {
		return goal{}, false
	}
	return r.goals[i], true
}

// row is a figure in JSON.
type row struct {
	Backend  string   `json:"backend"`
	Peer     string   `json:"peer"`
	Scenario string   `json:"scenario"`
	Metric   string   `json:"metric"`
	Value    float64  `json:"value"`
	Unit     string   `json:"unit"`
	Ratio    *float64 `json:"ratio"`
	To       string   `json:"to,omitempty"` // what the ratio compares with
	Goal     string   `json:"goal,omitempty"`
	Met      *bool    `json:"met,omitempty"`
}

func (r *results) rows() []row {
	rows := make([]row, len(r.figures))
	for i, f := range r.figures {
		rows[i] = row{Backend: r.backend, Peer: f.peer, Scenario: f.scenario, Metric: f.metric.name, Value: f.value(), Unit: f.metric.unit}
		if len(f.ratios) > 0 {
			ratio := f.ratio()
			rows[i].Ratio, rows[i].To = &ratio, f.metric.to
		}
		if g, ok := r.goal(f); ok {
			met := g.met(f)
			rows[i].Goal, rows[i].Met = g.String(), &met
		}
	}
	return rows
}

func writeJSON(file string, all []*results) error {
	rows := []row{}
	for _, r := range all {
		rows = append(rows, r.rows()...)
	}
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

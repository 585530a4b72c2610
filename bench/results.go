package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
)

// metric is one property that a scenario measures.
type metric struct {
	name, unit string
	baseline   string // what a ratio compares the value with; "": there is no ratio
}

// figure is one metric of one peer in one scenario, with a value for each round; NaN: none.
type figure struct {
	peer, scenario string
	metric         metric
	values, ratios []float64
}

// results are the figures of one backend, in the order in which they were measured.
type results struct {
	backend     string
	description string
	goals       []goal
	figures     []*figure
}

// add records the value of a round, which counts from 0, and its ratio to base if the metric has a
// ratio and base isn't 0.
func (r *results) add(peer, scenario string, round int, m metric, value, base float64) {
	f := r.find(peer, scenario, m.name)
	if f == nil {
		f = &figure{peer: peer, scenario: scenario, metric: m}
		r.figures = append(r.figures, f)
	}
	for len(f.values) < round { // rounds in which the peer failed
		f.values, f.ratios = append(f.values, math.NaN()), append(f.ratios, math.NaN())
	}
	ratio := math.NaN()
	if m.baseline != "" && base != 0 {
		ratio = value / base
	}
	f.values, f.ratios = append(f.values, value), append(f.ratios, ratio)
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

// row is a figure in JSON.
type row struct {
	Backend  string   `json:"backend"`
	Peer     string   `json:"peer"`
	Scenario string   `json:"scenario"`
	Metric   string   `json:"metric"`
	Value    float64  `json:"value"`
	Unit     string   `json:"unit"`
	Ratio    *float64 `json:"ratio"`
	To       string   `json:"to,omitempty"`  // what the ratio compares the value with
	Low      *float64 `json:"low,omitempty"` // 95 % bounds of the ratio, or else of the value
	High     *float64 `json:"high,omitempty"`
	Goal     string   `json:"goal,omitempty"`
	Met      *bool    `json:"met,omitempty"`
}

func (r *results) rows() []row {
	var rows []row
	for _, f := range r.figures {
		value, ratio := summarise(f.values), summarise(f.ratios)
		if math.IsNaN(value.median) {
			continue // the peer failed in all rounds
		}
		w := row{Backend: r.backend, Peer: f.peer, Scenario: f.scenario, Metric: f.metric.name, Value: value.median, Unit: f.metric.unit}
		bounds := value
		if !math.IsNaN(ratio.median) {
			bounds, w.Ratio, w.To = ratio, &ratio.median, f.metric.baseline
		}
		if !math.IsInf(bounds.spread(), 0) && len(f.values) > 1 {
			w.Low, w.High = &bounds.low, &bounds.high
		}
		if v, ok := r.judge(f); ok {
			w.Goal, w.Met = v.goal.String(), &v.met
		}
		rows = append(rows, w)
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
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

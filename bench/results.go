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
	once       bool   // there is one value for all rounds, and no bounds
}

// figure is one metric of one peer in one scenario, with a value for each round; NaN: none.
type figure struct {
	peer, scenario string
	metric         metric
	values, ratios []float64
	missing        string // why there are no values, or no more
}

// results are the figures of one backend, in the order in which they were measured.
type results struct {
	name        string // of the backend
	description string
	goals       []goal
	figures     []*figure
}

// add records the value of a round, which counts from 0, and its ratio to base if the metric has a
// ratio and base isn't 0.
func (r *results) add(peer, scenario string, round int, m metric, value, base float64) {
	f := r.make(peer, scenario, m)
	for len(f.values) < round { // rounds in which the peer failed
		f.values, f.ratios = append(f.values, math.NaN()), append(f.ratios, math.NaN())
	}
	ratio := math.NaN()
	if m.baseline != "" && base != 0 {
		ratio = value / base
	}
	f.values, f.ratios = append(f.values, value), append(f.ratios, ratio)
}

// miss records why a peer has no figures in a scenario, whose first metric is m. What it had in some
// rounds doesn't count.
func (r *results) miss(peer, scenario string, m metric, why string) {
	r.make(peer, scenario, m)
	for _, f := range r.figures {
		if f.peer == peer && f.scenario == scenario {
			f.missing = why
		}
	}
}

// make returns a figure, which is empty if it is new.
func (r *results) make(peer, scenario string, m metric) *figure {
	f := r.find(peer, scenario, m.name)
	if f == nil {
		f = &figure{peer: peer, scenario: scenario, metric: m}
		r.figures = append(r.figures, f)
	}
	return f
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

// outcome is what a figure says.
type outcome struct {
	value, ratio summary // NaN: there is none, or its bounds are too wide
	missing      string  // why there is neither
}

// outcome returns the figure without what the rounds are too different for.
func (f *figure) outcome() outcome {
	o := outcome{value: summarise(f.values), ratio: summarise(f.ratios)}
	none := summary{math.NaN(), math.NaN(), math.NaN()}
	switch {
	case f.missing != "":
		return outcome{none, none, f.missing}
	case math.IsNaN(o.value.median):
		return outcome{none, none, "failed"}
	case f.metric.once:
		return o
	}
	widest := o.value
	if !math.IsNaN(o.ratio.median) {
		widest = o.ratio
	}
	if !o.ratio.ratioTells() {
		o.ratio = none
	}
	if !o.value.tells() {
		o.value = none
	}
	// A value without its ratio depends on what else the machine did.
	if math.IsNaN(o.ratio.median) && (math.IsNaN(o.value.median) || f.metric.baseline != "") {
		return outcome{none, none, widest.String()}
	}
	return o
}

// row is a figure in JSON.
type row struct {
	Backend  string   `json:"backend"`
	Peer     string   `json:"peer"`
	Scenario string   `json:"scenario"`
	Metric   string   `json:"metric"`
	Value    *float64 `json:"value"` // null: the rounds are too different, or see missing
	Unit     string   `json:"unit"`
	Ratio    *float64 `json:"ratio"`
	To       string   `json:"to,omitempty"`  // what the ratio compares the value with
	Low      *float64 `json:"low,omitempty"` // 95 % bounds of the ratio, or else of the value
	High     *float64 `json:"high,omitempty"`
	Missing  string   `json:"missing,omitempty"` // why it was not measured
	Goal     string   `json:"goal,omitempty"`
	Met      *bool    `json:"met,omitempty"`
	Verdict  string   `json:"verdict,omitempty"` // the goals in words, each with what became of it
}

func (r *results) rows() []row {
	var rows []row
	for _, f := range r.figures {
		o := f.outcome()
		w := row{Backend: r.name, Peer: f.peer, Scenario: f.scenario, Metric: f.metric.name, Unit: f.metric.unit, Missing: o.missing}
		bounds := o.value
		if !math.IsNaN(o.value.median) {
			w.Value = &o.value.median
		}
		if !math.IsNaN(o.ratio.median) {
			bounds, w.Ratio, w.To = o.ratio, &o.ratio.median, f.metric.baseline
		}
		if !math.IsNaN(bounds.median) && !math.IsInf(bounds.spread(), 0) && !f.metric.once {
			w.Low, w.High = &bounds.low, &bounds.high
		}
		if all := r.judge(f); len(all) > 0 {
			w.Goal, w.Met, w.Verdict = all.goals(), all.met(), all.String()
		}
		rows = append(rows, w)
	}
	return rows
}

// rowsOf returns the rows of all backends. It is not nil, which would be null in JSON.
func rowsOf(all []*results) []row {
	rows := []row{}
	for _, r := range all {
		rows = append(rows, r.rows()...)
	}
	return rows
}

func writeJSON(file string, rows []row) error {
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

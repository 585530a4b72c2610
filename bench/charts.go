package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/fencedlock/locker/internal/chart"
)

// The charts of docs/benchmarks.md show what a user of a lock decides by. They are drawn from the
// rows of results.json, so that the figures of several runs can be in one picture.

// libraries are shown next to this project.
var libraries = []string{"rueidislock", "redislock", redsyncName, sharedMutexName, ownMutexName, zkLockName, "pglock"}

// plot says what one chart shows: a metric in some scenarios, each of which is a group of bars for
// each backend.
type plot struct {
	file, title, unit string
	metric            string
	peers             []string // next to this project
	scenarios         []plotScenario
	longest           float64 // a longer bar is cut, and its text has the value; 0: none is
	times             float64 // values are shown as so many times themselves
}

type plotScenario struct{ name, short string }

// plots are the charts, by what a user asks.
var plots = []plot{
	{
		file: "throughput.svg", metric: "throughput", peers: libraries, longest: 5, times: 1,
		title: "Acquire + release: how many a second, as a multiple of the same by hand", unit: "×",
		scenarios: []plotScenario{{loadName(1), "1"}, {loadName(64), "64"}},
	},
	{
		file: "throughput-distant.svg", metric: "throughput", peers: libraries, longest: 5, times: 1,
		title: "The same with 0.5 ms more for each round trip", unit: "×",
		scenarios: []plotScenario{{loadRow{1, addedRoundTrips[0]}.name(), "1"}, {loadRow{64, addedRoundTrips[0]}.name(), "64"}},
	},
	{
		file: "hand-off.svg", metric: "gap, median", peers: append(slices.Clone(libraries), pgByHand), longest: 15, times: 1,
		title: "Hand-off: from one holder to the next, as a multiple of one request", unit: "×",
		scenarios: []plotScenario{{handOffName(2), "2"}, {handOffName(16), "16"}, {handOffName(64), "64"}},
	},
	{
		file: "fairness.svg", metric: "Jain index", peers: append(slices.Clone(libraries), pgByHand), times: 100,
		title: "Fairness under contention: 100 if all contenders get the same share", unit: "%",
		scenarios: []plotScenario{{handOffName(16), "16"}, {handOffName(64), "64"}},
	},
	{
		file: "memory.svg", metric: "heap", peers: libraries, times: 1,
		title: "Memory of 10,000 held leases in the client", unit: "MB",
		scenarios: []plotScenario{{heldLeasesName, ""}},
	},
}

// charts draws all plots that the rows have figures for, by file.
func charts(rows []row) map[string]chart.Chart {
	all := make(map[string]chart.Chart)
	for _, p := range plots {
		if c := p.chart(rows); len(c.Groups) > 0 {
			all[p.file] = c
		}
	}
	return all
}

func (p plot) chart(rows []row) chart.Chart {
	c := chart.Chart{Title: p.title, Unit: p.unit}
	var words []string
	for _, b := range backends {
		for _, s := range p.scenarios {
			group := strings.TrimSuffix(b.name+", "+s.short, ", ")
			for _, peer := range append([]string{thisProject}, p.peers...) {
				i := slices.IndexFunc(rows, func(w row) bool {
					return w.Backend == b.name && w.Scenario == s.name && w.Metric == p.metric && w.Peer == peer
				})
				if i < 0 {
					continue
				}
				g, bar := c.Group(group), p.bar(rows[i])
				g.Bars = append(g.Bars, bar)
				words = append(words, fmt.Sprintf("%s, %s: %s", group, peer, bar.Text))
			}
		}
	}
	c.Short = strings.Join(words, "; ") + "."
	return c
}

// bar is of the ratio if the metric has one, and else of the value. A figure that is missing has a
// label and a dash, so that nobody takes it for zero.
func (p plot) bar(w row) chart.Bar {
	b := chart.Bar{Label: w.Peer, Text: "–"}
	v := w.Ratio
	if v == nil {
		v = w.Value
	}
	if v == nil || w.Missing != "" {
		return b
	}
	b.To, b.Kind = *v*p.times, chart.Other
	if w.Peer == thisProject {
		b.Kind = chart.Good
	}
	b.Text = number(b.To)
	if w.Ratio != nil {
		b.Text = fmt.Sprintf("%.2f", *w.Ratio)
	}
	if p.longest > 0 {
		b.To = min(b.To, p.longest)
	}
	return b
}

// writeCharts draws the charts into a folder, in the place of those that are there.
func writeCharts(dir string, rows []row) error {
	pictures := make(map[string]string)
	for file, c := range charts(rows) {
		pictures[file] = c.SVG()
	}
	return chart.Replace(dir, pictures)
}

// readJSON returns the rows of several files.
func readJSON(files []string) (all []row, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var rows []row
		if err := json.Unmarshal(text, &rows); err != nil {
			return nil, fmt.Errorf("%s: invalid: want the rows that a run has written: %w", file, err)
		}
		all = append(all, rows...)
	}
	return all, nil
}

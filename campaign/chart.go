package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// chart is what the report shows as a picture: bars in groups, on one scale.
type chart struct {
	title  string
	unit   string
	short  string // the main point in words, for readers who can't see the picture
	groups []group
}

type group struct {
	name string
	bars []bar
}

// bar is from one value to another, and has a text at its end.
type bar struct {
	label    string
	from, to float64
	text     string
	bad      bool // in the color of what shouldn't be
}

// image is a chart in a file.
type image struct {
	File, Alt string
	svg       string
}

// lostChart is the key of the chart of losses. The others have the names of their backends.
const lostChart = "lost"

// imagesOf returns the charts of a run. Their files are in dir, and have names that begin with prefix.
func imagesOf(r *result, dir, prefix string) map[string]*image {
	all := make(map[string]*image)
	add := func(key, file string, c chart) {
		if len(c.groups) > 0 {
			all[key] = &image{File: path.Join(dir, prefix+file+".svg"), Alt: c.title + ". " + c.short, svg: c.svg()}
		}
	}
	add(lostChart, "lost", chartOfLosses(r))
	for _, b := range backends {
		add(b.name, "margin-"+b.name, chartOfMargins(r, b.name))
	}
	return all
}

// longestMargin is how far a bar reaches, in ms: what a chart is for is near zero.
const longestMargin = 6000

// chartOfMargins has a bar for each library and fault: from the least margin to the greatest, of all
// rounds.
func chartOfMargins(r *result, backend string) chart {
	c := chart{title: "Margin between the holder's knowledge and the rival's grant, " + backend, unit: "ms"}
	var below []string
	for _, w := range backendRows(r, backend) {
		if w.Margin == nil {
			continue
		}
		g := c.group(w.Fault)
		at := slices.IndexFunc(g.bars, func(b bar) bool { return b.label == w.Library })
		if at < 0 {
			at = len(g.bars)
			g.bars = append(g.bars, bar{label: w.Library, from: w.Margin.Least, to: w.Margin.Greatest})
		}
		b := &g.bars[at]
		b.from, b.to = min(b.from, w.Margin.Least), max(b.to, w.Margin.Greatest)
	}
	for _, g := range c.groups {
		for i, b := range g.bars {
			text := fmt.Sprintf("%.0f", b.from)
			if b.from < 0 {
				below = append(below, fmt.Sprintf("%s in %s (%s ms)", b.label, g.name, text))
			}
			within := func(v float64) float64 { return max(-longestMargin, min(v, longestMargin)) }
			g.bars[i] = bar{label: b.label, from: within(b.from), to: within(b.to), text: text, bad: b.from < 0}
		}
	}
	c.short = "No margin is below zero."
	if len(below) > 0 {
		c.short = "Below zero: " + strings.Join(below, ", ") + "."
	}
	return c
}

// chartOfLosses has bars for each library in the pause, without the fence and with it.
func chartOfLosses(r *result) chart {
	c := chart{title: "Updates that were lost in the pause, of 100 acknowledged ones", unit: "%"}
	var words []string
	for _, b := range backends {
		for _, w := range backendRows(r, b.name) {
			if w.Fault != pauseFault || w.Workload != counterWorkload || w.Acknowledged == 0 {
				continue
			}
			share := 100 * float64(w.Lost) / float64(w.Acknowledged)
			text := fmt.Sprintf("%.0f", share)
			if w.Lost > 0 && share < 1 {
				text = "< 1"
			}
			g := c.group(b.name)
			g.bars = append(g.bars, bar{label: w.Library + fenceWord(w.Fence), to: share, text: text, bad: w.Lost > 0})
			words = append(words, fmt.Sprintf("%s, %s%s: %s", b.name, w.Library, fenceWord(w.Fence), text))
		}
	}
	c.short = strings.Join(words, "; ") + "."
	return c
}

// group returns the group of that name, which it adds if there is none.
func (c *chart) group(name string) *group {
	for i := range c.groups {
		if c.groups[i].name == name {
			return &c.groups[i]
		}
	}
	c.groups = append(c.groups, group{name: name})
	return &c.groups[len(c.groups)-1]
}

package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fencedlock/locker/internal/chart"
)

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
	add := func(key, file string, c chart.Chart) {
		if len(c.Groups) > 0 {
			all[key] = &image{File: path.Join(dir, prefix+file+".svg"), Alt: c.Alt(), svg: c.SVG()}
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
func chartOfMargins(r *result, backend string) chart.Chart {
	c := chart.Chart{Title: "Margin between the holder's knowledge and the rival's grant, " + backend, Unit: "ms"}
	var below []string
	for _, w := range backendRows(r, backend) {
		if w.Margin == nil {
			continue
		}
		g := c.Group(w.Fault)
		at := slices.IndexFunc(g.Bars, func(b chart.Bar) bool { return b.Label == w.Library })
		if at < 0 {
			at = len(g.Bars)
			g.Bars = append(g.Bars, chart.Bar{Label: w.Library, From: w.Margin.Least, To: w.Margin.Greatest})
		}
		b := &g.Bars[at]
		b.From, b.To = min(b.From, w.Margin.Least), max(b.To, w.Margin.Greatest)
	}
	for _, g := range c.Groups {
		for i, b := range g.Bars {
			text := fmt.Sprintf("%.0f", b.From)
			if b.From < 0 {
				below = append(below, fmt.Sprintf("%s in %s (%s ms)", b.Label, g.Name, text))
			}
			within := func(v float64) float64 { return max(-longestMargin, min(v, longestMargin)) }
			g.Bars[i] = chart.Bar{Label: b.Label, From: within(b.From), To: within(b.To), Text: text, Kind: kind(b.From < 0)}
		}
	}
	c.Short = "No margin is below zero."
	if len(below) > 0 {
		c.Short = "Below zero: " + strings.Join(below, ", ") + "."
	}
	return c
}

// chartOfLosses has bars for each library in the pause, without the fence and with it.
func chartOfLosses(r *result) chart.Chart {
	c := chart.Chart{Title: "Updates that were lost in the pause, of 100 acknowledged ones", Unit: "%"}
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
			g := c.Group(b.name)
			g.Bars = append(g.Bars, chart.Bar{Label: w.Library + fenceWord(w.Fence), To: share, Text: text, Kind: kind(w.Lost > 0)})
			words = append(words, fmt.Sprintf("%s, %s%s: %s", b.name, w.Library, fenceWord(w.Fence), text))
		}
	}
	c.Short = strings.Join(words, "; ") + "."
	return c
}

func kind(bad bool) chart.Kind {
	if bad {
		return chart.Bad
	}
	return chart.Good
}

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// print writes the figures as a Markdown table: a line for each metric of each scenario, a column for each peer. A ratio stands
// in brackets behind its value.
func (r *results) print(w io.Writer) error {
	var peers []string
	for _, f := range r.figures {
		if !slices.Contains(peers, f.peer) {
			peers = append(peers, f.peer)
		}
	}
	head := append([]string{"scenario", "metric"}, peers...)
	lines := [][]string{append(head, "goal")}
	for i, f := range r.figures {
		first := slices.IndexFunc(r.figures, func(g *figure) bool { return g.scenario == f.scenario && g.metric == f.metric })
		if first == i {
			lines = append(lines, r.line(f.scenario, f.metric, peers))
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "## %s\n\n%s\n\n", r.backend, r.about)
	widths := make([]int, len(head)+1)
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for n, line := range lines {
		for i, cell := range line {
			fmt.Fprintf(&text, "| %-*s ", widths[i], cell)
		}
		text.WriteString("|\n")
		if n == 0 {
			for _, width := range widths {
				text.WriteString("|" + strings.Repeat("-", width+2))
			}
			text.WriteString("|\n")
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (r *results) line(scenario string, m metric, peers []string) []string {
	name := m.name
	if m.unit != "" {
		name += ", " + m.unit
	}
	if m.to != "" {
		name += " (× " + m.to + ")"
	}
	line, verdict := []string{scenario, name}, ""
	for _, peer := range peers {
		cell := ""
		if f := r.find(peer, scenario, m.name); f != nil {
			cell = number(f.value())
			if len(f.ratios) > 0 {
				cell += fmt.Sprintf(" (%.2f)", f.ratio())
			}
			if g, ok := r.goal(f); ok && g.met(f) {
				verdict = g.String() + ": met"
			} else if ok {
				verdict = g.String() + ": **missed**"
			}
		}
		line = append(line, cell)
	}
	return append(line, verdict)
}

// number writes v with three digits or more, and without a fraction where it is large.
func number(v float64) string {
	if v == math.Trunc(v) || math.Abs(v) >= 1000 {
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// print writes the figures as a Markdown table: a line for each metric of each scenario, a column
// for each peer. The ratio is in parentheses after its value.
func (r *results) print(w io.Writer) error {
	var peers []string
	for _, f := range r.figures {
		if !slices.Contains(peers, f.peer) {
			peers = append(peers, f.peer)
		}
	}
	lines := [][]string{slices.Concat([]string{"scenario", "metric"}, peers, []string{"goal"})}
	for i, f := range r.figures {
		first := slices.IndexFunc(r.figures, func(g *figure) bool { return g.scenario == f.scenario && g.metric == f.metric })
		if first == i {
			lines = append(lines, r.line(f.scenario, f.metric, peers))
		}
	}
	_, err := fmt.Fprintf(w, "## %s\n\n%s\n\n%s\n", r.name, r.description, markdown(lines))
	return err
}

func (r *results) line(scenario string, m metric, peers []string) []string {
	name := m.name
	if m.unit != "" {
		name += ", " + m.unit
	}
	if m.baseline != "" {
		name += " (× " + m.baseline + ")"
	}
	line, judgement := []string{scenario, name}, ""
	for _, peer := range peers {
		cell := ""
		if f := r.find(peer, scenario, m.name); f != nil {
			cell = f.String()
			if all := r.judge(f); len(all) > 0 {
				judgement = judged(all.String())
			}
		}
		line = append(line, cell)
	}
	return append(line, judgement)
}

// String returns the value and, if there is one, its ratio with the distance of its confidence
// bounds. What the rounds are too different for is left out.
func (f *figure) String() string {
	o := f.outcome()
	if o.missing != "" {
		return "not measured: " + o.missing
	}
	var parts []string
	if !math.IsNaN(o.value.median) {
		parts = append(parts, number(o.value.median))
	}
	if !math.IsNaN(o.ratio.median) {
		parts = append(parts, fmt.Sprintf("(%.2f %s)", o.ratio.median, o.ratio))
	}
	return strings.Join(parts, " ")
}

// markdown formats lines as a table. The first line is its head.
func markdown(lines [][]string) string {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var text strings.Builder
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
	return text.String()
}

// number formats v with at least three digits, and without a fraction if it is large.
func number(v float64) string {
	if v == math.Trunc(v) || math.Abs(v) >= 1000 {
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

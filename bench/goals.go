package main

import (
	"fmt"
	"math"
)

// goal is what this project should reach in a scenario.
type goal struct {
	scenario, metric string
	ratio            bool   // the limit is for the ratio, not for the value
	relativeTo       string // compare with the value of this peer in the same round; "": don't
	atLeast          bool   // the limit is a lower bound, not an upper bound
	limit            float64
}

func (g goal) String() string {
	sign := "≤"
	if g.atLeast {
		sign = "≥"
	}
	switch {
	case g.relativeTo != "":
		return fmt.Sprintf("%s %g × %s", sign, g.limit, g.relativeTo)
	case g.ratio:
		return fmt.Sprintf("%s %g×", sign, g.limit)
	}
	return fmt.Sprintf("%s %s", sign, number(g.limit))
}

// verdict says whether a figure has reached its goal.
type verdict struct {
	goal     goal
	achieved summary // what is compared with the limit
	met      bool    // by the median
	unclear  bool    // the limit lies within the bounds of what was measured
}

// judge compares f with its goal. It returns false for a figure that has no goal.
func (r *results) judge(f *figure) (verdict, bool) {
	if f.peer != thisProject {
		return verdict{}, false
	}
	for _, g := range r.goals {
		if g.scenario == f.scenario && g.metric == f.metric.name {
			return g.judge(r.achieved(g, f)), true
		}
	}
	return verdict{}, false
}

// achieved returns what f has, to compare with the limit of g.
func (r *results) achieved(g goal, f *figure) summary {
	switch {
	case g.relativeTo != "":
		var ratios []float64
		if other := r.find(g.relativeTo, f.scenario, f.metric.name); other != nil {
			for i := range min(len(f.values), len(other.values)) {
				ratios = append(ratios, f.values[i]/other.values[i])
			}
		}
		return summarise(ratios)
	case g.ratio:
		return summarise(f.ratios)
	}
	return summarise(f.values)
}

// judge ignores a difference that is smaller than what the table shows.
func (g goal) judge(s summary) verdict {
	limit, sign := g.limit+0.005, 1.0
	if g.atLeast {
		limit, sign = g.limit-0.005, -1
	}
	return verdict{
		goal:     g,
		achieved: s,
		met:      sign*s.median <= sign*limit,
		unclear:  s.low <= limit && limit <= s.high && !math.IsInf(s.spread(), 0),
	}
}

func (v verdict) String() string {
	text := v.goal.String()
	if v.goal.relativeTo != "" {
		text += fmt.Sprintf(" (%.2f)", v.achieved.median)
	}
	switch {
	case v.met:
		text += ": met"
	default:
		text += ": **missed**"
	}
	if v.unclear {
		text += ", within the noise"
	}
	return text
}

// checkGoals returns an error for a goal whose metric was not measured although its scenario was
// run.
func (r *results) checkGoals() error {
	for _, g := range r.goals {
		ran := false
		for _, f := range r.figures {
			ran = ran || f.peer == thisProject && f.scenario == g.scenario
		}
		if ran && r.find(thisProject, g.scenario, g.metric) == nil {
			return fmt.Errorf("goal for %q in %q: invalid: the scenario doesn't measure that metric", g.metric, g.scenario)
		}
	}
	return nil
}

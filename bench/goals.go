package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// goal is what this project should reach in a scenario.
type goal struct {
	scenario, metric string
	ratio            bool   // the limit is for the ratio, not for the value
	relativeTo       string // compare with the value of this peer in the same round; "": don't
	atLeast          bool   // the limit is a lower bound, not an upper bound
	limit            float64
}

// throughputGoals returns goals for rows of acquire + release: at least as many times what a lock by
// hand has, and as much as each of the other peers.
func throughputGoals(added time.Duration, timesByHand map[int]float64, others ...string) (goals []goal) {
	for n, limit := range timesByHand {
		scenario := loadRow{n, added}.name()
		goals = append(goals, goal{scenario: scenario, metric: "throughput", ratio: true, atLeast: true, limit: limit})
		for _, other := range others {
			goals = append(goals, goal{scenario: scenario, metric: "throughput", relativeTo: other, atLeast: true, limit: 1})
		}
	}
	return goals
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
	known    bool    // the limit is outside of the bounds, or the bounds are close
	met      bool    // by the median
	unclear  bool    // the limit lies within the bounds of what was measured
}

// verdicts tell which goals one figure meets. It has several goals if it is compared with several peers.
type verdicts []verdict

// judge compares f with its goals, which only figures of this project have.
func (r *results) judge(f *figure) (all verdicts) {
	if f.peer != thisProject {
		return nil
	}
	for _, g := range r.goals {
		if g.scenario == f.scenario && g.metric == f.metric.name {
			all = append(all, g.judge(r.achieved(g, f), f.metric.once))
		}
	}
	return all
}

func (all verdicts) String() string { return all.join(verdict.String) }

func (all verdicts) goals() string {
	return all.join(func(v verdict) string { return v.goal.String() })
}

func (all verdicts) join(text func(verdict) string) string {
	var texts []string
	for _, v := range all {
		texts = append(texts, text(v))
	}
	return strings.Join(texts, "; ")
}

// met reports whether all goals are met; nil: it isn't known.
func (all verdicts) met() *bool {
	met := true
	for _, v := range all {
		if !v.known {
			return nil
		}
		met = met && v.met
	}
	return &met
}

// achieved returns what f has, to compare with the limit of g.
func (r *results) achieved(g goal, f *figure) summary {
	switch {
	case f.missing != "":
		return summarise(nil)
	case g.relativeTo != "":
		var ratios []float64
		if other := r.find(g.relativeTo, f.scenario, f.metric.name); other != nil && other.missing == "" {
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

// judge ignores a difference that is smaller than what the table shows. A figure that is measured
// once has no bounds, and none are needed.
func (g goal) judge(s summary, once bool) verdict {
	limit, sign := g.limit+0.005, 1.0
	if g.atLeast {
		limit, sign = g.limit-0.005, -1
	}
	v := verdict{
		goal:     g,
		achieved: s,
		met:      sign*s.median <= sign*limit,
		unclear:  !once && s.low <= limit && limit <= s.high,
	}
	v.known = once && !math.IsNaN(s.median) || s.tells() || s.high < limit || limit < s.low
	return v
}

func (v verdict) String() string {
	text := v.goal.String()
	switch {
	case math.IsNaN(v.achieved.median):
		return text + ": not measured"
	case !v.known:
		return text + ": not measured, " + v.achieved.String()
	}
	if v.goal.relativeTo != "" {
		text += fmt.Sprintf(" (%.2f)", v.achieved.median)
	}
	switch {
	case v.met:
		text += ": met"
	default:
		text += ": missed"
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
			ran = ran || f.peer == thisProject && f.scenario == g.scenario && f.missing == ""
		}
		if ran && r.find(thisProject, g.scenario, g.metric) == nil {
			return fmt.Errorf("goal for %q in %q: invalid: the scenario doesn't measure that metric", g.metric, g.scenario)
		}
	}
	return nil
}

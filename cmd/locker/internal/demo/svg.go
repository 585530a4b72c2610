package demo

import (
	_ "embed"
	"io"
	"text/template"
)

// SVG draws runs of the story, one below the other.
func SVG(w io.Writer, panels []Panel) error {
	p := picture{Width: panelWidth + 2*gap, Height: gap + len(panels)*(panelHeight+gap)}
	for i, panel := range panels {
		p.Panels = append(p.Panels, panel.draw(gap+i*(panelHeight+gap)))
	}
	return svg.Execute(w, p)
}

// Panel is one run of the story.
type Panel struct {
	Title   string
	Events  []Event
	Outcome Outcome
}

// These are the measures of the picture, in its own units.
const (
	gap         = 10
	panelWidth  = 720
	laneA       = 80 // the line of A's life, from the panel's left
	laneB       = 400
	top         = 84 // the first event
	step        = 28
	rows        = 10 // the events of a run
	panelHeight = top + step*rows + 28
)

//go:embed timeline.svg.tmpl
var svgText string

var svg = template.Must(template.New("timeline").Funcs(template.FuncMap{"escape": template.HTMLEscapeString}).Parse(svgText))

type picture struct {
	Width, Height int
	Panels        []drawn
}

type drawn struct {
	X, Y, Width, Height    int
	LaneA, LaneB           int
	FromA, ToA, FromB, ToB int // their lives
	StopFrom, StopTo       int // while A is stopped
	Title, Verdict         string
	Lost                   bool
	Marks                  []mark
}

type mark struct {
	X, Y  int
	At    float64 // seconds
	Text  string
	Class string
}

var classes = map[Mood]string{Plain: "plain", Stopped: "plain", Good: "good", Bad: "bad"}

func (p Panel) draw(y int) drawn {
	d := drawn{
		X: gap, Y: y, Width: panelWidth, Height: panelHeight, LaneA: gap + laneA, LaneB: gap + laneB,
		Title: p.Title, Verdict: p.Outcome.verdict(), Lost: p.Outcome.Lost,
	}
	for i, e := range p.Events {
		m := mark{X: d.LaneA, Y: y + top + step*i, At: e.At.Seconds(), Text: e.Text, Class: classes[e.Mood]}
		switch e.Role {
		case B:
			m.X = d.LaneB
			d.FromB, d.ToB = first(d.FromB, m.Y), m.Y
		case A:
			if d.StopFrom > 0 {
				d.StopTo = first(d.StopTo, m.Y)
			}
			if e.Mood == Stopped {
				d.StopFrom = m.Y
			}
			d.FromA, d.ToA = first(d.FromA, m.Y), m.Y
		}
		d.Marks = append(d.Marks, m)
	}
	return d
}

// first returns old if it is set, and otherwise new.
func first(old, new int) int {
	if old != 0 {
		return old
	}
	return new
}

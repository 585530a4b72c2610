package demo

import (
	_ "embed"
	"io"
	"text/template"
)

// SVG draws runs of the story, one below the other. The rows are events, so the layout doesn't
// depend on how long they took.
func SVG(w io.Writer, panels []Panel) error {
	p := picture{Width: panelWidth + 2*gap, Height: gap + len(panels)*(panelHeight+gap) + legendHeight + gap, Left: gap}
	for i, panel := range panels {
		p.Panels = append(p.Panels, panel.draw(gap+i*(panelHeight+gap)))
	}
	p.Legend = p.Height - gap - legendHeight
	return svg.Execute(w, p)
}

// Panel is one run of the story.
type Panel struct {
	Fenced  bool
	Events  []Event
	Outcome Outcome
}

// These are the measures of the picture, in its own units.
const (
	gap          = 10
	panelWidth   = 720
	laneA        = 80 // the line of A's life, from the panel's left
	laneB        = 396
	top          = 84 // the first event
	step         = 28
	rows         = 10 // the events of a run
	panelHeight  = top + step*rows + 28
	legendHeight = 40
)

//go:embed timeline.svg.tmpl
var svgText string

var svg = template.Must(template.New("timeline").Funcs(template.FuncMap{"escape": template.HTMLEscapeString}).Parse(svgText))

type picture struct {
	Width, Height int
	Left, Legend  int // of the legend
	Panels        []drawn
}

type drawn struct {
	X, Y, Width, Height int
	LaneA, LaneB, First int
	Title, Verdict      string
	Lost                bool
	Holds               []line // who has the lock
	Lives               []line
	Marks               []mark
}

// line is vertical. Its class is "life", "waits" or "stopped".
type line struct {
	X, From, To int
	Class       string
}

// Height is the height of a bar around the line.
func (l line) Height() int { return l.To - l.From }

type mark struct {
	X, Y    int
	At      float64 // seconds
	Text    string
	Class   string
	Refused bool
}

var classes = map[Mood]string{Plain: "plain", Stopped: "plain", Good: "good", Refused: "good", Bad: "bad"}

func (p Panel) draw(y int) drawn {
	d := drawn{
		X: gap, Y: y, Width: panelWidth, Height: panelHeight, LaneA: gap + laneA, LaneB: gap + laneB, First: y + top,
		Title: Title(p.Fenced), Verdict: p.Outcome.verdict(), Lost: p.Outcome.Lost,
	}
	lanes := [2]int{A: d.LaneA, B: d.LaneB}
	var (
		last   [2]*Event // of each role
		lastY  [2]int
		holder = -1 // index in d.Holds of the bar that is open
	)
	for i := range p.Events {
		e, at := &p.Events[i], y+top+step*i
		d.Marks = append(d.Marks, mark{
			X: lanes[e.Role], Y: at, At: e.At.Seconds(), Text: e.Text, Class: classes[e.Mood], Refused: e.Mood == Refused,
		})
		before := last[e.Role]
		if before != nil {
			d.Lives = append(d.Lives, line{X: lanes[e.Role], From: lastY[e.Role], To: at, Class: before.class()})
		}
		// A lock has one holder: a bar ends when its holder releases the lock, or another one gets it.
		switch {
		case e.Part == Holds && (before == nil || before.Part != Holds):
			if holder >= 0 {
				d.Holds[holder].To = at
			}
			holder = len(d.Holds)
			d.Holds = append(d.Holds, line{X: lanes[e.Role], From: at, To: at})
		case holder >= 0 && d.Holds[holder].X == lanes[e.Role]:
			d.Holds[holder].To = at
			if e.Part != Holds {
				holder = -1
			}
		}
		last[e.Role], lastY[e.Role] = e, at
	}
	return d
}

// class is what the line of a role looks like after an event.
func (e *Event) class() string {
	switch {
	case e.Mood == Stopped:
		return "stopped"
	case e.Part == Waits:
		return "waits"
	}
	return "life"
}

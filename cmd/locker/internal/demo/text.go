package demo

import (
	"fmt"
	"io"
	"strings"
)

// These are the widths of the parts of a line, for a terminal with 80 columns.
const (
	timeWidth = 8
	laneWidth = 36
)

// Text writes events as lines, in one column each for A and B.
type Text struct {
	w       io.Writer
	stopped bool // whether A is stopped
	err     error
}

// NewText writes to w.
func NewText(w io.Writer) *Text { return &Text{w: w} }

func (t *Text) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
}

// Head writes the title and the column headings.
func (t *Text) Head(title string) {
	t.line("%s\n", title)
	t.line("%*s%-*s%s", timeWidth, "", laneWidth, "A", "B")
}

// Event writes one line.
func (t *Text) Event(e Event) {
	text := e.Text
	if e.Mood == Good || e.Mood == Refused || e.Mood == Bad {
		text = "> " + text
	}
	var lane [2]string
	if t.stopped {
		lane[A] = "  :"
	}
	lane[e.Role] = text
	t.line("%5.1fs  %-*s%s", e.At.Seconds(), laneWidth, lane[A], lane[B])
	if e.Role == A {
		t.stopped = e.Mood == Stopped
	}
}

// End writes the outcome, and returns the first error of a write.
func (t *Text) End(o Outcome) error {
	t.line("\n%s\n", o.verdict())
	return t.err
}

func (o Outcome) verdict() string {
	if o.Lost {
		return fmt.Sprintf("The balance is %d: B's %d were acknowledged, and are lost.", o.Balance, addsB)
	}
	return fmt.Sprintf("The balance is %d: nothing is lost, and A knows that it was late.", o.Balance)
}

package top

import (
	"context"
	"strings"
)

// taking is a lock that is to be taken away from its holder: the question, a reason, and the answer.
// Each key leads one step further at most, so that no key that is pressed twice takes anything away.
type taking struct {
	row      Row
	atOnce   bool
	stage    stage
	question string
	reason   string
	asked    bool // the call of the stage is made
}

type stage int

const (
	stageQuestion stage = iota // the service is asked who has the lock
	stageReason                // a reason is typed
	stageAnswer                // yes or no
	stageBreak                 // the lock is being taken away
)

// step is a call for a lock that is to be taken away.
type step struct {
	of     *taking
	breaks bool // the call of Break; else of Question
	row    Row
	atOnce bool
	reason string
}

type answer struct {
	of   *taking
	text string
	err  error
}

func (s Screen) do(ctx context.Context, step step) answer {
	a := answer{of: step.of}
	if step.breaks {
		a.text, a.err = s.Break(ctx, step.row, step.atOnce, step.reason)
	} else {
		a.text, a.err = s.Question(ctx, step.row, step.atOnce)
	}
	return a
}

// begin is for the lock that is open, or the chosen one, as the screen shows it.
func (v *view) begin(atOnce bool) {
	row := v.open
	if rows := v.shown(); row.Key == "" && len(rows) > 0 {
		row = rows[v.cursor(rows)]
	}
	for _, r := range v.rows { // the one that is open may have passed on since
		if r.Key == row.Key {
			row = r
		}
	}
	switch {
	case row.Key == "":
	case row.Name == "":
		v.done = "the service doesn't know the name of this lock"
	default:
		v.taking = &taking{row: row, atOnce: atOnce}
	}
}

// decide is a key for the lock that is to be taken away. What is under way isn't held back any more.
func (v *view) decide(k key) {
	t := v.taking
	switch t.stage {
	case stageQuestion:
		if k == keyBack {
			v.drop()
		}
	case stageReason:
		switch reason, typing := edit(t.reason, k); {
		case k == keyBack:
			v.drop()
		case typing:
			t.reason = reason
		case strings.TrimSpace(reason) != "":
			t.stage = stageAnswer
		}
	case stageAnswer:
		if k == 'y' || k == 'Y' {
			t.stage, t.asked = stageBreak, false
			return
		}
		v.drop()
	case stageBreak:
	}
}

func (v *view) drop() { v.taking, v.done = nil, "nothing was changed" }

// types reports whether keys are parts of a text.
func (v *view) types() bool { return v.typing || v.taking != nil && v.taking.stage == stageReason }

// next returns the call that is due, once.
func (v *view) next() (step, bool) {
	t := v.taking
	if t == nil || t.asked || t.stage != stageQuestion && t.stage != stageBreak {
		return step{}, false
	}
	t.asked = true
	return step{of: t, breaks: t.stage == stageBreak, row: t.row, atOnce: t.atOnce, reason: t.reason}, true
}

// answered processes the answer to a call. One that was dropped meanwhile was a question.
func (v *view) answered(a answer) {
	if v.taking == nil || a.of != v.taking {
		return
	}
	switch {
	case a.err != nil:
		v.taking, v.done = nil, a.err.Error()
	case v.taking.stage == stageBreak:
		v.taking, v.done = nil, v.taking.row.Title+": "+a.text
	default:
		v.taking.question, v.taking.stage = a.text, stageReason
	}
}

// lines are broken at the width of the screen: what a question says isn't cut.
func (t *taking) lines(width int) []string {
	var lines []string
	for line := range strings.SplitSeq(t.question, "\n") {
		for text := []rune(line); ; {
			n := min(len(text), max(width, 1))
			lines = append(lines, string(text[:n]))
			if text = text[n:]; len(text) == 0 {
				break
			}
		}
	}
	switch t.stage {
	case stageReason:
		return append(lines, "", "Reason: "+t.reason)
	case stageAnswer, stageBreak:
		return append(lines, "", "Reason: "+t.reason, "", "y takes it away, any other key leaves it")
	}
	return lines
}

func (t *taking) foot() string {
	switch t.stage {
	case stageReason:
		return "type a reason, for the holder and for the audit; Enter goes on, Escape leaves it"
	case stageAnswer:
		return "y/N"
	}
	return "asking the service"
}

package top

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/fencedlock/locker/cmd/locker/internal/tally"
)

const reverse, normal = "\x1b[7m", "\x1b[m"

// lines is the screen, from top to bottom, in at most height lines. The terminal cuts what is too wide.
func (v *view) lines(width, height int) []string {
	room := max(height-3, 1)
	var body []string
	switch {
	case v.taking != nil:
		body = v.taking.lines(width)
	case v.open.Key != "":
		body = v.one()
	default:
		body = v.table(room)
	}
	body = body[:min(len(body), room)]
	lines := append([]string{v.head(), v.note}, body...)
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(height-1, 0)], v.foot())
	for i, line := range lines {
		lines[i] = cut(line, width)
	}
	return lines
}

// cut saves the terminal what it can't show; characters that are two columns wide are its own matter.
func cut(line string, width int) string {
	marked := strings.HasPrefix(line, reverse)
	text := strings.TrimSuffix(strings.TrimPrefix(line, reverse), normal)
	if utf8.RuneCountInString(text) > width {
		text = string([]rune(text)[:max(width, 0)])
	}
	if marked {
		return reverse + text + normal
	}
	return text
}

func (v *view) head() string {
	if v.typing || v.filter != "" {
		return v.title + "   filter: " + v.filter
	}
	return v.title
}

func (v *view) foot() string {
	switch {
	case v.taking != nil:
		return v.taking.foot()
	case v.done != "":
		return v.done
	case v.typing:
		return "Enter keeps the filter, Escape drops it"
	case !v.looked:
		return "asking the service"
	case v.last.err != nil:
		return "the last look failed: " + v.last.err.Error()
	}
	keys := "s sort  / filter  Enter show  b break  q quit"
	if v.open.Key != "" {
		keys = "Escape back  b break  q quit"
	}
	return fmt.Sprintf("%s; the list took %v   %s", v.count(), v.last.took.Round(time.Millisecond), keys)
}

// count says how many locks there are, and how many callers wait.
func (v *view) count() string {
	var t tally.Tally
	for _, r := range v.rows {
		t.Add(r.Name, r.Slot, !r.Free, r.Waiters)
	}
	return t.String()
}

// table has room for the head and the rows around the cursor.
func (v *view) table(room int) []string {
	rows := v.shown()
	at, fit := v.cursor(rows), max(room-1, 1)
	from := max(0, min(at-fit/2, len(rows)-fit))
	rows = rows[from:min(from+fit, len(rows))]
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  NAME\tHELD\tWAITING\tTOKEN\tHOLDER")
	for _, r := range rows {
		fmt.Fprintln(w, v.mark(r)+" "+strings.Join([]string{r.Title, r.Held, r.Waiting, r.Token, r.Holder}, "\t"))
	}
	_ = w.Flush()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	lines[0] += "   by " + sorts[v.sort].name
	if len(rows) > 0 {
		lines[at-from+1] = reverse + lines[at-from+1] + normal
	}
	return lines
}

// one is the lock that is open.
func (v *view) one() []string {
	detail := v.details[v.open.Key]
	switch {
	case v.open.Name == "":
		detail = v.open.Title + "\n  the list shows all: the service doesn't know its name"
	case detail == "":
		detail = v.open.Title
	}
	return strings.Split(strings.TrimSuffix(detail, "\n"), "\n")
}

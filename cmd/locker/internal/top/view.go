package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// view is what the screen shows, and what keys do with it.
type view struct {
	title string
	every time.Duration

	rows    []Row             // of the last look that didn't fail
	before  map[string]Row    // of the one before that, by key; nil: there was none
	last    found             // the last look
	looked  bool              // there was one
	sort    int               // of sorts
	filter  string            // part of the title or the holder
	typing  bool              // keys are for the filter
	chosen  string            // the key of the row with the cursor
	open    Row               // the lock that is shown alone; zero: none
	details map[string]string // of open, by its key: one entry at most
}

// sorts are the orders that s goes through.
var sorts = []struct {
	name  string
	order func(a, b Row) int
}{
	{"waiting", func(a, b Row) int { return cmp.Compare(b.Waiters, a.Waiters) }},
	{"held", func(a, b Row) int { return cmp.Compare(b.HeldFor, a.HeldFor) }},
	{"name", func(a, b Row) int { return 0 }},
}

// take shows what a look has found. A look that has failed leaves the rows as they were.
func (v *view) take(f found) {
	v.last, v.looked = f, true
	if f.err != nil {
		return
	}
	if v.rows != nil {
		v.before = make(map[string]Row, len(v.rows))
		for _, r := range v.rows {
			v.before[r.Key] = r
		}
	}
	v.rows = f.rows
	if v.rows == nil {
		v.rows = []Row{}
	}
	v.details = map[string]string{f.of: f.detail}
}

// shown are the rows that the filter lets through, in order.
func (v *view) shown() []Row {
	wanted := strings.ToLower(v.filter)
	var rows []Row
	for _, r := range v.rows {
		if strings.Contains(strings.ToLower(r.Title+"\n"+r.Holder), wanted) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(sorts[v.sort].order(a, b), cmp.Compare(a.Title, b.Title), cmp.Compare(a.Key, b.Key))
	})
	return rows
}

func (v *view) press(k key) {
	switch {
	case v.typing:
		v.edit(k)
	case v.open.Key != "":
		if k == keyBack || k == keyEnter {
			v.open = Row{}
		}
	case k == 's':
		v.sort = (v.sort + 1) % len(sorts)
	case k == '/':
		v.typing = true
	case k == keyBack:
		v.filter = ""
	case k == keyUp || k == 'k':
		v.move(-1)
	case k == keyDown || k == 'j':
		v.move(1)
	case k == keyEnter:
		if rows := v.shown(); len(rows) > 0 {
			v.open = rows[v.cursor(rows)]
		}
	}
}

// edit is a key for the filter.
func (v *view) edit(k key) {
	switch {
	case k == keyEnter:
		v.typing = false
	case k == keyBack:
		v.typing, v.filter = false, ""
	case k == keyDelete:
		_, size := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-size]
	case k > 0:
		v.filter += string(rune(k))
	}
}

// cursor is the place of the chosen row, or of the first one if that is gone.
func (v *view) cursor(rows []Row) int {
	return max(slices.IndexFunc(rows, func(r Row) bool { return r.Key == v.chosen }), 0)
}

func (v *view) move(by int) {
	if rows := v.shown(); len(rows) > 0 {
		v.chosen = rows[min(max(v.cursor(rows)+by, 0), len(rows)-1)].Key
	}
}

// mark says how a row differs from the look before: a lock that is new or has another holder, or more
// who wait.
func (v *view) mark(r Row) string {
	if v.before == nil {
		return " "
	}
	before, known := v.before[r.Key]
	switch {
	case !known || before.Token != r.Token || before.Holder != r.Holder:
		return "*"
	case r.Waiters > before.Waiters:
		return "+"
	}
	return " "
}

const reverse, normal = "\x1b[7m", "\x1b[m"

// lines is the screen, from top to bottom, in at most height lines. The terminal cuts what is too wide.
func (v *view) lines(width, height int) []string {
	room := max(height-3, 1)
	var body []string
	if v.open.Key != "" {
		body = v.one()
		body = body[:min(len(body), room)]
	} else {
		body = v.table(room)
	}
	lines := append([]string{v.head(), ""}, body...)
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
	case v.typing:
		return "Enter keeps the filter, Escape drops it"
	case !v.looked:
		return "asking the service"
	case v.last.err != nil:
		return "the last look failed: " + v.last.err.Error()
	}
	waiting := 0
	for _, r := range v.rows {
		waiting += max(r.Waiters, 0)
	}
	keys := "s sort  / filter  Enter show  q quit"
	if v.open.Key != "" {
		keys = "Escape back  q quit"
	}
	return fmt.Sprintf("%d locks, %d waiting; the list took %v   %s", len(v.rows), waiting, v.last.took.Round(time.Millisecond), keys)
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
		detail = v.open.Title + "\n  the service doesn't know its name, so it can't be asked about it"
	case detail == "":
		detail = v.open.Title
	}
	return strings.Split(strings.TrimSuffix(detail, "\n"), "\n")
}

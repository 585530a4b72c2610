package top

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// view is what the screen shows, and what keys do with it.
type view struct {
	title string
	every time.Duration

	rows    []Row             // of the last look that didn't fail
	note    string            // which locks rows leaves out; empty: none
	before  map[string]Row    // of the one before that, by key; nil: there was none
	last    found             // the last look
	looked  bool              // there was one
	sort    int               // of sorts
	filter  string            // part of the title or the holder
	typing  bool              // keys are for the filter
	chosen  string            // the key of the row with the cursor
	open    Row               // the lock that is shown alone; zero: none
	details map[string]string // of open, by its key: one entry at most
	taking  *taking           // the lock that is to be taken away; nil: none
	done    string            // what became of the last one that was, until a key is pressed
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
	v.rows, v.note = f.rows, f.note
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
	v.done = ""
	switch {
	case v.taking != nil:
		v.decide(k)
	case v.typing:
		v.filter, v.typing = edit(v.filter, k)
	case k == 'b' || k == 'B':
		v.begin(k == 'B')
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

// edit is a key for a text. The typing ends with Enter, or with Escape, which drops the text.
func edit(text string, k key) (edited string, typing bool) {
	switch {
	case k == keyEnter:
		return text, false
	case k == keyBack:
		return "", false
	case k == keyDelete:
		_, size := utf8.DecodeLastRuneInString(text)
		return text[:len(text)-size], true
	case k > 0:
		return text + string(rune(k)), true
	}
	return text, true
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

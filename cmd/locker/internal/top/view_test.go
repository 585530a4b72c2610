package top

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func rows() []Row {
	return []Row{
		{Key: "k1", Name: "b", Title: "b", Held: "4s", Waiting: "0", Token: "7", Holder: "web", HeldFor: 4 * time.Second},
		{Key: "k2", Name: "a", Title: "a", Held: "1s", Waiting: "3", Token: "8", Holder: "db", HeldFor: time.Second, Waiters: 3},
		{Key: "k3", Title: "(key k3)", Held: "-", Waiting: "?", Token: "-", Holder: "-", HeldFor: -1, Waiters: -1},
	}
}

func newView() *view {
	v := &view{title: "redis", every: time.Second}
	v.take(found{rows: rows(), took: 5 * time.Millisecond})
	return v
}

// names are the locks of the screen, in order, with their marks.
func names(v *view) string {
	var names []string
	for _, line := range v.lines(80, 20)[3:] {
		line = strings.TrimPrefix(line, reverse)
		if line == "" {
			break
		}
		names = append(names, line[:1]+strings.Fields(line[1:])[0])
	}
	return strings.Join(names, "")
}

func TestOrder(t *testing.T) {
	v := newView()
	for _, want := range []string{" a b (key", " b a (key", " (key a b", " a b (key"} {
		if got := names(v); got != want {
			t.Errorf("by %s: %q, want %q", sorts[v.sort].name, got, want)
		}
		v.press('s')
	}
}

func TestFilter(t *testing.T) {
	v := newView()
	for _, k := range "/WEBx" {
		v.press(key(k))
	}
	v.press(keyDelete)
	if got := names(v); got != " b" || v.lines(80, 20)[0] != "redis   filter: WEB" {
		t.Errorf("with the filter WEB: %q, %q", got, v.lines(80, 20)[0])
	}
	v.press(keyEnter)
	v.press('s') // isn't for the filter any more
	if v.filter != "WEB" || v.sort != 1 {
		t.Errorf("the filter is %q, the order %d", v.filter, v.sort)
	}
	v.press(keyBack)
	if v.filter != "" {
		t.Errorf("after Escape the filter is %q", v.filter)
	}
}

// Changes since the look before are marked, once.
func TestMarks(t *testing.T) {
	v := newView()
	changed := rows()
	changed[0].Token, changed[1].Waiting, changed[1].Waiters = "9", "4", 4
	changed = append(changed, Row{Key: "k4", Name: "new", Title: "new"})
	v.take(found{rows: changed})
	if got := names(v); got != "+a*b*new (key" {
		t.Errorf("the rows are %q", got)
	}
	v.take(found{rows: changed})
	if got := names(v); got != " a b new (key" {
		t.Errorf("after another look the rows are %q", got)
	}
}

func TestCursorStaysWithItsLock(t *testing.T) {
	v := newView()
	v.press(keyDown)
	if v.chosen != "k1" {
		t.Fatalf("the cursor is at %s", v.chosen)
	}
	v.press('s') // b is the first one now
	if line := v.lines(80, 20)[3]; !strings.HasPrefix(line, reverse+"  b") || !strings.HasSuffix(line, normal) {
		t.Errorf("the first row is %q", line)
	}
	v.take(found{rows: rows()[1:]}) // and is gone
	v.press(keyUp)
	if v.chosen != "k2" {
		t.Errorf("without its lock the cursor is at %s", v.chosen)
	}
	for range 5 {
		v.press(keyDown)
	}
	if v.chosen != "k3" {
		t.Errorf("below the last lock the cursor is at %s", v.chosen)
	}
}

func TestOneLock(t *testing.T) {
	v := newView()
	v.press(keyEnter)
	if v.open.Name != "a" {
		t.Fatalf("%q is open", v.open.Name)
	}
	v.take(found{rows: rows(), of: "k2", detail: "a on redis\n  held by web\n"})
	if got := strings.Join(v.lines(80, 6), "|"); !strings.Contains(got, "a on redis|  held by web||") || !strings.Contains(got, "Escape back") {
		t.Errorf("the screen is %q", got)
	}
	v.press(keyBack)
	if v.open.Key != "" {
		t.Error("Escape doesn't go back")
	}
	v.press(keyDown)
	v.press(keyDown)
	v.press(keyEnter)
	if got := strings.Join(v.lines(80, 20), "|"); !strings.Contains(got, "doesn't know its name") {
		t.Errorf("a lock without a name: %q", got)
	}
}

// A look that fails leaves the rows on the screen, and says why.
func TestFailure(t *testing.T) {
	v := &view{title: "redis"}
	if lines := v.lines(80, 10); lines[9] != "asking the service" {
		t.Errorf("before the first look: %q", lines)
	}
	v = newView()
	v.take(found{err: errors.New("no answer")})
	if got := names(v); got != " a b (key" || v.lines(80, 10)[9] != "the last look failed: no answer" {
		t.Errorf("after a look that failed: %q, %q", got, v.lines(80, 10)[9])
	}
}

// A list that leaves locks out says so above the locks, until one is complete.
func TestNote(t *testing.T) {
	v := newView()
	v.take(found{rows: rows(), note: "not all locks are listed"})
	if got := names(v); got != " a b (key" || v.lines(80, 20)[1] != "not all locks are listed" {
		t.Errorf("the screen is %q, want the locks and the note", v.lines(80, 20))
	}
	v.take(found{rows: rows()})
	if got := v.lines(80, 20)[1]; got != "" {
		t.Errorf("after a complete list the note is %q", got)
	}
}

// Whatever the size of the terminal, nothing is outside of it.
func TestSizes(t *testing.T) {
	v := &view{title: "redis"}
	var many []Row
	for i := range 100 {
		many = append(many, Row{Key: string(rune('a' + i)), Name: "n", Title: strings.Repeat("ä", i), Holder: "web"})
	}
	v.take(found{rows: many})
	for _, k := range []key{'x', keyDown, keyEnter, keyBack, '/'} {
		v.press(k)
		for _, width := range []int{0, 1, 2, 10, 40, 79, 80, 119} {
			for height := range 30 {
				lines := v.lines(width, height)
				if len(lines) > max(height, 1) {
					t.Fatalf("%d lines on a terminal of %d", len(lines), height)
				}
				for _, line := range lines {
					text := strings.TrimSuffix(strings.TrimPrefix(line, reverse), normal)
					if len([]rune(text)) > width {
						t.Fatalf("%q on a terminal of %d columns", line, width)
					}
				}
			}
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string][]key{
		"":             nil,
		"q":            {'q'},
		"aÄ日":          {'a', 'Ä', '日'},
		"\x1b":         {keyBack},
		"\x1b[A\x1bOB": {keyUp, keyDown},
		"\r\x7f\x03":   {keyEnter, keyDelete, keyQuit},
		"\x1b[15~":     nil, // F5
		"a\x1b[Hb":     {'a'},
		"\x00\x01\xff": nil,
	} {
		if got := parse(text); !slices.Equal(got, want) {
			t.Errorf("%q is read as %v, want %v", text, got, want)
		}
	}
}

package tally

import (
	"testing"

	"github.com/fencedlock/locker"
)

type row struct {
	name    string
	slot    int
	held    bool
	waiting int
}

func TestTally(t *testing.T) {
	const line = locker.LineSlot
	for what, test := range map[string]struct {
		rows []row
		want string
	}{
		"nothing":                            {nil, "0 locks, 0 waiting"},
		"locks":                              {[]row{{"a", 0, true, 2}, {"b", 0, true, -1}, {"c", 0, false, 1}}, "3 locks, 3 waiting"},
		"nobody knows who waits":             {[]row{{"a", 0, true, -1}, {"a", line, true, -1}}, "1 lock"},
		"three permits, and two wait":        {[]row{{"a", 1, true, 1}, {"a", 2, true, 1}, {"a", 3, true, 1}, {"a", line, true, 1}}, "3 locks, 2 waiting"},
		"the line comes first":               {[]row{{"a", line, true, 1}, {"a", 1, true, 1}, {"a", 2, true, 1}}, "2 locks, 2 waiting"},
		"a line that isn't listed":           {[]row{{"a", 1, true, 1}, {"a", 2, true, 1}}, "2 locks, 1 waiting"},
		"a line that nobody has":             {[]row{{"a", 1, true, 1}, {"a", line, false, 0}}, "1 lock, 1 waiting"},
		"two names":                          {[]row{{"a", 1, true, 1}, {"a", line, true, 0}, {"b", 1, true, 1}, {"b", line, true, 2}, {"b", 0, true, 4}}, "3 locks, 8 waiting"},
		"the length of the line isn't known": {[]row{{"a", 1, true, 0}, {"a", line, true, -1}}, "1 lock, 1 waiting"},
	} {
		var got Tally
		for _, r := range test.rows {
			got.Add(r.name, r.slot, r.held, r.waiting)
		}
		if got.String() != test.want {
			t.Errorf("%s: %q, want %q", what, got.String(), test.want)
		}
	}
}

package main

import (
	"strings"
	"testing"
	"time"
)

func TestStalls(t *testing.T) {
	ms := func(n int) moment { return moment(time.Duration(n) * time.Millisecond) }
	begin := now() + moment(time.Hour) // later than since's own look
	var s stalls
	for _, at := range []int{0, 10, 20, 400, 410} {
		s.run(begin + ms(at))
	}
	if !s.since(begin) || !s.since(begin+ms(399)) {
		t.Error("a stall of 380 ms was not noted")
	}
	if s.since(begin + ms(400)) {
		t.Error("a stall is noted after its end")
	}
	if s.note(begin + ms(500)); !s.since(begin + ms(400)) {
		t.Error("an overload was not noted")
	}
}

func TestOverloaded(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines []string // of the last second, the last of them again and again
		want  bool
	}{
		{"a minute of overload", []string{"12.08 3.08 5.17 2/301 4711\n"}, true},
		{"an overload that is over", []string{"11.99 30.08 50.17 2/301 4711\n"}, false},
		{"a second of overload", []string{"1.08 3.08 5.17 13/301 4711\n"}, true},
		{"a tenth of a second", []string{"1.08 3.08 5.17 70/301 4711\n", "1.08 3.08 5.17 2/301 4711\n"}, false},
		{"not on Linux", []string{""}, false},
	} {
		l := loads{processors: 2}
		over := false
		for i := range len(l.runnable) {
			over = l.over(tc.lines[min(i, len(tc.lines)-1)])
		}
		if over != tc.want {
			t.Errorf("%s: over = %v, want %v", tc.name, over, tc.want)
		}
	}
}

// Findings that a slow machine explains leave doubts, and no others.
func TestDoubts(t *testing.T) {
	sound := findings{Acknowledged: allUpdates}
	changed := func(change func(f *findings)) findings {
		f := sound
		change(&f)
		return f
	}
	less := func(f *findings) { f.Acknowledged-- }
	noRenewal := library{name: "a peer", noRenewal: true}
	for _, tc := range []struct {
		name         string
		f            findings
		l            library
		fence, keeps bool
		want         string
	}{
		{"sound", sound, library{}, true, true, ""},
		{"late", changed(func(f *findings) { f.Late = true }), library{}, true, false, "a late grant"},
		{"not granted", changed(func(f *findings) { f.NotGranted = true }), library{}, false, false, "a rival without a grant"},
		{"a lock that never expires", changed(func(f *findings) { f.NotGranted = true }), library{neverExpires: true}, false, false, ""},
		{"a contender failed", changed(func(f *findings) { f.Failed = true }), library{}, false, false, "a contender that failed"},
		{"a contender failed, and a late grant", changed(func(f *findings) { f.Late, f.Failed = true, true }), library{}, false, false, "a late grant, a contender that failed"},
		{"a lock that was lost in the control", changed(less), library{}, false, true, "a lock that was lost"},
		{"a lock that was lost in a cut", changed(less), library{}, false, false, ""},
		{"a lock without renewal that was lost in the control", changed(less), noRenewal, false, true, ""},
		{"a lock that was lost in the control, and no update", changed(func(f *findings) { f.Cause = "lost" }), library{}, false, true, "a lock that was lost"},
		{"lost in the control", changed(func(f *findings) { f.Lost = 1 }), library{}, false, true, "a lock that was lost"},
		{"lost with the fence", changed(func(f *findings) { f.Lost = 1 }), library{}, true, true, ""},
		{"late, and both believed", changed(func(f *findings) { f.Late, f.Overlap = true, 1 }), library{}, false, false, ""},
		{"late, and a negative margin", changed(func(f *findings) { f.Late, f.Margin = true, duration(-1) }), library{}, false, false, ""},
		{"late, and a token out of order", changed(func(f *findings) { f.Late, f.OutOfOrder = true, 1 }), library{}, false, false, ""},
	} {
		if got := strings.Join(tc.f.doubts(tc.l, tc.fence, tc.keeps), ", "); got != tc.want {
			t.Errorf("%s: doubts = %q, want %q", tc.name, got, tc.want)
		}
	}
}

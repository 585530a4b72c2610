package main

import (
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	peer, ours := library{name: "a peer"}, library{name: thisProject}
	sound := row{Fault: "cut", Rounds: 1, Acknowledged: 14}
	changed := func(f func(*row)) row {
		r := sound
		f(&r)
		return r
	}
	for _, tc := range []struct {
		name string
		row  row
		l    library
		want string // in the rule that is broken; empty: none is
	}{
		{"sound", sound, ours, ""},
		{"no round", changed(func(r *row) { r.Rounds = 0 }), ours, "no round"},
		{"no round of a peer", changed(func(r *row) { r.Rounds = 0 }), peer, ""},
		{"no control of a peer", row{Fault: "nothing"}, peer, "no round"},
		{"control that loses", row{Fault: "nothing", Rounds: 1, Acknowledged: 14, Lost: 1}, peer, "the control has lost 1"},
		{"control that does nothing", row{Fault: "nothing", Rounds: 1}, peer, "has acknowledged 0"},
		{"pause that loses nothing", row{Fault: "pause", Rounds: 1, Acknowledged: 14, Lost: 1}, peer, "proves nothing"},
		{"pause that loses enough", row{Fault: "pause", Rounds: 1, Acknowledged: 14, Lost: 6}, ours, ""},
		{"pause with the fence", row{Fault: "pause", Fence: true, Rounds: 1, Acknowledged: 14}, ours, ""},
		{"pause of a lock without a TTL", row{Fault: "pause", Rounds: 1, Acknowledged: 14}, library{neverExpires: true}, ""},
		{"a peer that overlaps", changed(func(r *row) { r.Overlaps = 1 }), peer, ""},
		{"overlap", changed(func(r *row) { r.Overlaps = 1 }), ours, "two holders believed"},
		{"planted", changed(func(r *row) { r.Overlaps = 1 }), library{planted: noMistake}, "two holders believed"},
		{"lost with the fence", changed(func(r *row) { r.Fence, r.Lost = true, 1 }), ours, "lost with the fence"},
		{"negative margin", changed(func(r *row) { r.Margin = &spread{Least: -1} }), ours, "before the holder knew"},
		{"tokens reversed", changed(func(r *row) { r.Reversed = 1 }), ours, "smaller token"},
		{"a lease that came back", changed(func(r *row) { r.Returned = 1 }), ours, "came back"},
		{"pause of a workload that counts rounds", row{Fault: "pause", Workload: "register", Rounds: 1, Acknowledged: 14, Lost: 1}, ours, ""},
		{"such a pause that loses nothing", row{Fault: "pause", Workload: "register", Rounds: 1, Acknowledged: 14}, ours, "proves nothing"},
		{"tokens", changed(func(r *row) { r.OutOfOrder = 1 }), ours, "out of order"},
		{"not granted", changed(func(r *row) { r.NotGranted = 1 }), ours, "not granted"},
	} {
		got := strings.Join(check(tc.row, tc.l), "; ")
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: check = %q, want %q", tc.name, got, tc.want)
		}
	}
}

package main

import (
	"strings"
	"testing"
)

// A planted lock takes part until one of its rows has the finding that is expected of it.
func TestUnsettled(t *testing.T) {
	b, err := findBackend("redis")
	if err != nil {
		t.Fatal(err)
	}
	w := workloads[0]
	entries := entriesOf(b, fault{name: "pause"}, w, meeting("pause", redisPlanted))
	if all := meeting("kill", redisPlanted); len(all) != 0 {
		t.Errorf("%d planted locks take part in a fault that must find none", len(all))
	}
	if len(entries) != 6 {
		t.Fatalf("%d entries, want two mistakes and none, each without and with the fence", len(entries))
	}
	find := func(m *mistake, fails string) {
		for _, e := range entries {
			if e.library.planted == m && !e.Fence {
				e.Fails = []string{fails}
			}
		}
	}
	find(releaseOfAny, "all rounds are void")
	if n := len(unsettled(entries)); n != 6 {
		t.Errorf("%d entries go on after a failure that isn't the finding, want 6", n)
	}
	find(releaseOfAny, "two holders believed at the same time, in 1 rounds")
	if n := len(unsettled(entries)); n != 4 {
		t.Errorf("%d entries go on when one mistake is found, want 4", n)
	}
	find(renewalOfAny, "1 leases came back after their loss")
	if n := len(unsettled(entries)); n != 0 {
		t.Errorf("%d entries go on when all is found, want none", n)
	}
}

func TestUnfound(t *testing.T) {
	selected, err := newSelection("^redis$", "slow-cut", "", "", true)
	if err != nil {
		t.Fatal(err)
	}
	of := func(m *mistake, fails ...string) *row {
		return &row{Backend: "redis", Fault: "slow-cut", Library: plant(m, nil).name, Rounds: 1, Fails: fails}
	}
	for _, tc := range []struct {
		name string
		rows []*row
		want string // in the error; empty: there is none
	}{
		{"found", []*row{of(deadlineFromReply, "two holders believed"), of(deadlineFromReply), of(noMistake)}, ""},
		{"not found", []*row{of(deadlineFromReply), of(noMistake)}, "was not found"},
		{"something else was found", []*row{of(deadlineFromReply, "all rounds are void"), of(noMistake)}, "was not found"},
		{"not run", nil, "was not found"},
		{"another backend", []*row{{Backend: "etcd", Library: plant(deadlineFromReply, nil).name, Fails: []string{"two holders believed"}}}, "was not found"},
		{"no mistake", []*row{of(deadlineFromReply, "two holders believed"), of(noMistake, "two holders believed")}, "a lock without a mistake fails"},
	} {
		c := campaign{selection: selected, result: &result{Rows: tc.rows}}
		err := c.unfound()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: unfound = %v, want %q", tc.name, err, tc.want)
		}
	}
}

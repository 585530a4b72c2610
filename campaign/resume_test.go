package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A run goes on with the figures of an earlier part, if that was of the same code.
func TestResume(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	fresh := func() *result {
		r := newResult(t.Context(), 7)
		r.Commit = "abc"
		return r
	}
	first, err := fresh().resume(file, 0)
	if err != nil || first.Parts != 1 {
		t.Fatalf("without a file: part %d, %v", first.Parts, err)
	}
	w := first.enter(&row{Backend: "redis", Fault: "pause", Workload: "counter", Library: "locker"})
	w.Rounds, w.Void = 3, 1
	first.enter(&row{Backend: "redis", Fault: "kill", Workload: "counter", Library: "locker"})
	if err := first.write(file); err != nil {
		t.Fatal(err)
	}
	second, err := fresh().resume(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	if second.Parts != 2 || second.Seed != 7 || len(second.Rows) != 1 {
		t.Errorf("part %d with seed %d and %d rows, want 2, 7, and the row that has rounds", second.Parts, second.Seed, len(second.Rows))
	}

	c := campaign{rounds: 10, peerRounds: 2, result: second}
	b, err := findBackend("redis")
	if err != nil {
		t.Fatal(err)
	}
	x := &experiment{entries: entriesOf(b, fault{name: "pause"}, workloads[0], b.libraries[:2])}
	c.enter(x)
	for round, want := range map[int]int{0: 2, 1: 2, 2: 1, 3: 1, 4: 2, 9: 2} {
		if got := len(c.active(x, round)); got != want {
			t.Errorf("round %d has %d entries, want %d: 4 rounds of one were run, and others run in 2", round, got, want)
		}
	}

	for name, change := range map[string]func(r *result){
		"commit": func(r *result) { r.Commit = "def" },
		"Go":     func(r *result) { r.Go = "go1" },
	} {
		r := fresh()
		change(r)
		if _, err := r.resume(file, 0); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if _, err := fresh().resume(file, 8); err == nil || !strings.Contains(err.Error(), "seed") {
		t.Errorf("another seed: %v", err)
	}
}

// A void round has another one in its place, after all others, until there are twice as many.
func TestFurtherRounds(t *testing.T) {
	c := campaign{rounds: 10}
	for _, tc := range []struct{ rounds, void, further int }{
		{10, 0, 0}, {9, 1, 1}, {10, 1, 0}, {0, 10, 1}, {1, 18, 1}, {1, 19, 0}, {0, 20, 0},
	} {
		x := &experiment{entries: []entry{{row: &row{Rounds: tc.rounds, Void: tc.void}, wanted: 10}}}
		if got := len(c.active(x, c.rounds)); got != tc.further {
			t.Errorf("%d rounds, and %d void ones: %d entries go on, want %d", tc.rounds, tc.void, got, tc.further)
		}
	}
}

// Rounds that end in another order are added in the order of their numbers.
func TestAddInOrder(t *testing.T) {
	e := entry{row: &row{Fault: "cut"}, library: library{name: "a peer"}}
	x := &experiment{entries: []entry{e}, outcomes: make(map[int][]outcome)}
	var c campaign
	ended := func(updates int) []outcome {
		return []outcome{{entry: e, history: history{Acknowledged: updates}}}
	}
	c.add(x, 2, ended(100))
	c.add(x, 1, nil)
	if e.Rounds != 0 {
		t.Errorf("%d rounds before the first has ended, want none", e.Rounds)
	}
	c.add(x, 0, ended(1))
	if e.Rounds != 2 || e.Acknowledged != 101 {
		t.Errorf("%d rounds with %d updates, want 2 with 101", e.Rounds, e.Acknowledged)
	}
}

package main

import (
	"slices"
	"testing"
)

// read and wrote are accesses of the update with that id.
func read(id int, values ...int) access  { return access{update: id, values: values} }
func wrote(id int, values ...int) access { return access{update: id, values: values, write: true} }

// TestWorkloadVerdicts has for each workload an update after the other, and updates of two holders
// at the same time.
func TestWorkloadVerdicts(t *testing.T) {
	accounts := []int{1000, 1000, 1000, 1000}
	for _, tc := range []struct {
		name, workload string
		d              data
		want           int
	}{
		{"one after the other", "counter", data{final: []int{2}, log: []access{read(1, 0), wrote(1, 1), read(2, 1), wrote(2, 2)}}, 0},
		{"a stale write", "counter", data{final: []int{1}, log: []access{read(1, 0), read(2, 0), wrote(2, 1), read(3, 1), wrote(3, 2), wrote(1, 1)}}, 2},

		{"nothing", "register", data{}, 0},
		{"one after the other", "register", data{log: []access{read(1, 0), wrote(1, 1), read(2, 1), wrote(2, 2), read(3, 2)}}, 0},
		{"a stale write", "register", data{log: []access{read(1, 0), read(2, 0), wrote(2, 2), wrote(1, 1)}}, 1},
		{"a stale write that nobody reads", "register", data{log: []access{read(1, 0), read(2, 0), wrote(2, 2), wrote(1, 1), read(3, 2)}}, 1},
		{"a refused write", "register", data{log: []access{read(1, 0), read(2, 0), wrote(2, 2), read(3, 2), wrote(3, 3)}}, 0},
		{"a read of a number from before the last write", "register", data{log: []access{read(1, 0), wrote(1, 1), read(2, 0)}}, 1},
		{"updates at the same time that have an order", "register", data{log: []access{read(1, 0), wrote(1, 1), read(2, 1), read(3, 1), wrote(2, 2)}}, 0},

		{"one after the other", "set", data{final: []int{1, 2}, log: []access{read(1), wrote(1, 1), read(2, 1), wrote(2, 1, 2)}}, 0},
		{"a stale write", "set", data{final: []int{1}, log: []access{read(1), read(2), wrote(2, 2), read(3, 2), wrote(3, 2, 3), wrote(1, 1)}}, 2},
		{"a number without an acknowledged write", "set", data{final: []int{1}, log: []access{read(1), wrote(1, 1), read(2, 1)}}, 0},

		{"nothing", "transfers", data{start: accounts, final: accounts}, 0},
		{"the sum is the same", "transfers", data{start: accounts, final: []int{900, 1100, 1050, 950}}, 0},
		{"the sum is another", "transfers", data{start: accounts, final: []int{900, 1100, 1050, 1000}}, 1},
	} {
		w, err := findWorkload(tc.workload)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.lost(tc.d); got != tc.want {
			t.Errorf("%s, %s: lost = %d, want %d", tc.workload, tc.name, got, tc.want)
		}
	}
	if _, err := findWorkload("graph"); err == nil {
		t.Error("a workload that doesn't exist was found")
	}
}

// play executes updates on a store. Where stale is true, one more update reads first and writes last.
func play(w workload, stale bool) data {
	s := newStore("data", w.start)
	begin := func(id int) (end func()) {
		u := update{id: id, seed: 7}
		var cells []int
		if w.cells != nil {
			cells = w.cells(u)
		}
		r := s.answer(request{Say: sayRead, Update: id, Cells: cells})
		return func() {
			s.answer(request{Say: sayWrite, Update: id, Cells: cells, Values: w.change(r.Values, u)})
		}
	}
	end := func() {}
	if stale {
		end = begin(1001)
	}
	for i := range rivalUpdates {
		begin(2001 + i)()
	}
	end()
	return s.data()
}

// TestWorkloads executes the updates of each workload, one after the other and with a stale write.
func TestWorkloads(t *testing.T) {
	for _, w := range workloads {
		if lost := w.lost(play(w, false)); lost != 0 {
			t.Errorf("%s: updates one after the other have lost %d", w.name, lost)
		}
		want := rivalUpdates
		if w.perRound {
			want = 1
		}
		if lost := w.lost(play(w, true)); lost != want {
			t.Errorf("%s: a stale write has lost %d, want %d", w.name, lost, want)
		}
	}
}

// A transfer is between two accounts, and depends on the seed and its id.
func TestTransfers(t *testing.T) {
	first := update{id: 1001, seed: 7}
	other := 0
	for id := range 100 {
		u := update{id: 1001 + id, seed: 7}
		from := u.accounts(4)
		if from[0] == from[1] || u.amount() < 1 || !slices.Equal(from, u.accounts(4)) {
			t.Errorf("transfer %d moves %d between accounts %v", u.id, u.amount(), from)
		}
		if !slices.Equal(from, first.accounts(4)) {
			other++
		}
	}
	if other < 50 {
		t.Errorf("%d of 100 transfers are between other accounts than the first", other)
	}
}

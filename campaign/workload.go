package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// workloads is the table of what the contenders do with the data that the lock protects. The data
// is a list of numbers, the cells. An update reads cells, thinks, and writes the same cells in one
// request.
//
// To add a workload, add a row here, with a verdict that depends on its arguments alone.
var workloads = []workload{
	{
		name: counterWorkload, what: "one number; an update writes what it has read, plus one",
		losses: "acknowledged updates that the counter doesn't contain at the end",
		start:  []int{0},
		change: func(read []int, _ update) []int { return []int{read[0] + 1} },
		lost:   lostUpdates,
	},
	{
		name: "register", what: "one number; an update writes a number that nobody else writes",
		losses: "rounds in which no order explains what the updates have read; porcupine looks for one", perRound: true,
		start:  []int{0},
		change: func(_ []int, u update) []int { return []int{u.id} },
		lost:   unordered,
	},
	{
		name: "set", what: "a list of unique numbers; an update writes the list that it has read, and one number more",
		losses: "acknowledged numbers that the list doesn't contain at the end",
		change: func(read []int, u update) []int { return append(slices.Clone(read), u.id) },
		lost:   missing,
	},
	{
		name: "transfers", what: "four accounts; an update reads two and writes two, and moves an amount from one to the other",
		losses: "rounds after which the sum of all accounts is another", perRound: true,
		start:  []int{1000, 1000, 1000, 1000},
		cells:  func(u update) []int { return u.accounts(4) },
		change: func(read []int, u update) []int { return []int{read[0] - u.amount(), read[1] + u.amount()} },
		lost:   sumChanged,
	},
}

// counterWorkload is the default.
const counterWorkload = "counter"

type workload struct {
	name, what string
	losses     string // what is counted as lost
	perRound   bool   // a round has lost 1 or nothing

	start  []int                            // the cells before the first update
	cells  func(u update) []int             // which cells u reads and writes; nil: all
	change func(read []int, u update) []int // what u writes
	lost   func(d data) int                 // the verdict
}

func findWorkload(name string) (workload, error) {
	var names []string
	for _, w := range workloads {
		if w.name == name {
			return w, nil
		}
		names = append(names, w.name)
	}
	return workload{}, fmt.Errorf("workload %q is unknown: want one of %s", name, strings.Join(names, ", "))
}

// update is one update of a round. id is unique in the round, and larger than 0; seed is the same
// for all of them.
type update struct {
	id   int
	seed uint64
}

// accounts are the two accounts of a transfer among n.
func (u update) accounts(n int) []int { return u.chance().Perm(n)[:2] }

// amount is what a transfer moves.
func (u update) amount() int { return 1 + u.chance().IntN(99) }

func (u update) chance() *rand.Rand { return rand.New(rand.NewPCG(u.seed, uint64(u.id))) }

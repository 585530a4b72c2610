package main

import (
	"slices"

	"github.com/anishathalye/porcupine"
)

// data is what the store knows at the end of a round.
type data struct {
	start, final []int
	log          []access // what was executed, in this order
}

// access is a read or a write that the store has executed.
type access struct {
	update int // its id
	write  bool
	values []int // of the cells that it has read or written
}

func (d data) acknowledged() (n int) {
	for _, a := range d.log {
		if a.write {
			n++
		}
	}
	return n
}

// lostUpdates is the verdict on a counter.
func lostUpdates(d data) int { return d.acknowledged() - d.final[0] }

// missing is the verdict on a set.
func missing(d data) (n int) {
	for _, a := range d.log {
		if a.write && !slices.Contains(d.final, a.update) {
			n++
		}
	}
	return n
}

// sumChanged is the verdict on transfers.
func sumChanged(d data) int {
	sum := func(cells []int) (all int) {
		for _, c := range cells {
			all += c
		}
		return all
	}
	if sum(d.final) != sum(d.start) {
		return 1
	}
	return 0
}

// swap is an update of a register: it has read a number and written another.
type swap struct{ read, wrote int }

// register is the model: an update reads what the last one has written, all at once.
var register = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, _, output any) (bool, any) {
		now := output.(swap)
		return now.read == state.(int), now.wrote
	},
}

// unordered is the verdict on a register. A lock makes an update from its read to its write one
// step, so there is an order of all steps. An update without a write leaves the number as it is.
func unordered(d data) int {
	at := make(map[int]int) // the place of an update in the history
	var history []porcupine.Operation
	for i, a := range d.log {
		time := int64(2 * i)
		if !a.write {
			at[a.update] = len(history)
			read := a.values[0]
			history = append(history, porcupine.Operation{Call: time, Output: swap{read, read}, Return: time + 1})
			continue
		}
		op := &history[at[a.update]]
		op.Output, op.Return = swap{op.Output.(swap).read, a.values[0]}, time+1
	}
	if porcupine.CheckOperations(register, history) {
		return 0
	}
	return 1
}

package main

import (
	"context"
	"slices"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
)

// store has the data that one lock protects. It is in the program, and contenders reach it through
// their pipes: no fault of the lock service keeps a holder from writing, which is the worst case.
// All reads and writes are in one order, so what was lost is counted exactly.
type store struct {
	name string

	mu      sync.Mutex
	marks   fence.Memory
	start   []int
	cells   []int
	log     []access
	refused int // reads and writes
}

func newStore(name string, start []int) *store {
	return &store{name: name, start: start, cells: slices.Clone(start)}
}

// answer executes a request of a contender. A request without a token is executed without a fence.
func (s *store) answer(r request) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Token != 0 && s.marks.Claim(context.Background(), s.name, locker.Token(r.Token)) != nil {
		s.refused++
		return reply{Refused: true}
	}
	if r.Say == sayWrite {
		s.write(r.Cells, r.Values)
		s.log = append(s.log, access{update: r.Update, write: true, values: r.Values})
		return reply{}
	}
	values := s.read(r.Cells)
	s.log = append(s.log, access{update: r.Update, values: values})
	return reply{Values: values}
}

// read returns the values of some cells; nil: of all.
func (s *store) read(cells []int) (values []int) {
	if cells == nil {
		return slices.Clone(s.cells)
	}
	for _, i := range cells {
		values = append(values, s.cells[i])
	}
	return values
}

func (s *store) write(cells, values []int) {
	if cells == nil {
		s.cells = slices.Clone(values)
	}
	for i, cell := range cells {
		s.cells[cell] = values[i]
	}
}

func (s *store) data() data {
	s.mu.Lock()
	defer s.mu.Unlock()
	return data{start: s.start, final: slices.Clone(s.cells), log: slices.Clone(s.log)}
}

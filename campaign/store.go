package main

import (
	"context"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
)

// store has the counter of one lock. It is in the program, and contenders reach it through their
// pipes: no fault of the lock service keeps a holder from writing, which is the worst case. All
// reads and writes are in one order, so what was lost is counted exactly.
type store struct {
	name string

	mu           sync.Mutex
	marks        fence.Memory
	value        int
	acknowledged int
	refused      int
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
		s.value = r.Value
		s.acknowledged++
	}
	return reply{Value: s.value}
}

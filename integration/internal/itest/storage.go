//go:build unix

package itest

import (
	"sync"

	"github.com/fencedlock/locker"
)

// storage is what a lock protects: a number that each section reads and then writes, one larger. It is kept twice, by a fence
// that checks the token before the read and with the write, and by none.
type storage struct {
	mu           sync.Mutex
	written      chan struct{} // closed by the next write behind the fence
	highest      locker.Token
	fenced, bare number
	refused      int // writes, by the fence
}

type number struct{ value, acknowledged int }

// reading is what a section has seen of both numbers.
type reading struct{ Fenced, Bare int }

func newStorage() *storage { return &storage{written: make(chan struct{})} }

// read refuses a token below the highest. Whoever has a smaller one is refused from now on.
func (s *storage) read(token locker.Token) (seen reading, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.highest {
		return reading{}, false
	}
	s.highest = token
	return reading{s.fenced.value, s.bare.value}, true
}

// write adds one to what was read. The bare number takes whatever comes.
func (s *storage) write(token locker.Token, seen reading) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bare.set(seen.Bare + 1)
	if token < s.highest {
		s.refused++
		return false
	}
	s.fenced.set(seen.Fenced + 1)
	close(s.written)
	s.written = make(chan struct{})
	return true
}

func (n *number) set(value int) {
	n.value = value
	n.acknowledged++
}

// lost is how many updates were acknowledged and are not in the number.
func (n *number) lost() int { return n.acknowledged - n.value }

// next is closed by the next write behind the fence.
func (s *storage) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

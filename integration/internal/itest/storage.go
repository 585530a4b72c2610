//go:build unix

package itest

import (
	"sync"

	"github.com/fencedlock/locker"
)

// storage is what a lock protects: a number that each critical section reads, and then writes
// increased by one. The number exists twice: with a fence that checks the token before the read and
// with the write, and without a fence.
type storage struct {
	mu           sync.Mutex
	written      chan struct{} // closed by the next write that the fence accepts
	highest      locker.Token
	fenced, bare number
	refused      int // writes, by the fence
}

type number struct{ value, acknowledged int }

// reading contains the values of both numbers that a section has read.
type reading struct{ Fenced, Bare int }

func newStorage() *storage { return &storage{written: make(chan struct{})} }

// read refuses a token that is smaller than the highest token. From now on all tokens smaller than
// this one are refused.
func (s *storage) read(token locker.Token) (seen reading, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.highest {
		return reading{}, false
	}
	s.highest = token
	return reading{s.fenced.value, s.bare.value}, true
}

// write adds one to the number that was read. The number without a fence accepts every write.
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

// lost returns the number of updates that were acknowledged and are missing in the number.
func (n *number) lost() int { return n.acknowledged - n.value }

// next is closed by the next write that the fence accepts.
func (s *storage) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

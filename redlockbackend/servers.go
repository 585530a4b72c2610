package redlockbackend

import "math/bits"

// mostServers is how many there can be: each request goes to all of them.
const mostServers = 15

// servers is a set of servers, by number.
type servers uint16

func allOf(n int) servers             { return 1<<n - 1 }
func (s servers) has(i int) bool      { return s>>i&1 == 1 }
func (s servers) with(i int) servers  { return s | 1<<i }
func (s servers) minus(i int) servers { return s &^ (1 << i) }
func (s servers) size() int           { return bits.OnesCount16(uint16(s)) }

// next takes a server out; s is not empty.
func (s *servers) next() int {
	i := bits.TrailingZeros16(uint16(*s))
	*s = s.minus(i)
	return i
}

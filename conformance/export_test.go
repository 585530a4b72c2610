package conformance

import (
	"testing"
	"time"
)

// Counterexample is what a search finds.
type Counterexample = counterexample

// Search is [Explore] for tests of the suite: it returns the shortest failing program instead of
// failing t, and searches from its own seed.
func Search(t *testing.T, h Harness, b Budget, seed uint64) *Counterexample {
	return search(t, h, b, seed)
}

// Try is [Replay] for tests of the suite.
func Try(t *testing.T, h Harness, p Program) *Counterexample {
	return newSearch(t, h, Budget{}.withDefaults()).try(p)
}

// TryWithin is Try with a limit for the program.
func TryWithin(t *testing.T, h Harness, p Program, limit time.Duration) *Counterexample {
	s := newSearch(t, h, Budget{}.withDefaults())
	s.limit = limit
	return s.try(p)
}

// Programs are the programs of n seeds.
func Programs(t *testing.T, h Harness, seed uint64, n int) []Program {
	programs := newSearch(t, h, Budget{}.withDefaults()).traits.programs()
	var list []Program
	for range n {
		list = append(list, generate(programs, seed))
		seed++
	}
	return list
}

// HoldSearches lets no search make a program until release is called, as while another search
// shortens one.
func HoldSearches() (release func()) {
	rapidFlags.Lock()
	return rapidFlags.Unlock
}

// HashPairs are the pairs of names that have the same hash.
var HashPairs = hashPairs

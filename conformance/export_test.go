package conformance

import "testing"

// Search is [Explore] for tests of the suite: it returns the shortest failing program instead of
// failing t, and searches from its own seed.
func Search(t *testing.T, h Harness, b Budget, seed uint64) *Counterexample {
	return search(t, h, b, seed)
}

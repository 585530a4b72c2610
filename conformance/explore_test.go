package conformance_test

import (
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
)

// TestExploreMem searches where nothing is wrong.
func TestExploreMem(t *testing.T) {
	conformance.Explore(t, inBubbles(memHarness(plain)), conformance.Budget{Time: 4 * time.Second})
}

func TestExploreToy(t *testing.T) {
	conformance.Explore(t, inBubbles(toyHarness(flaws{}, plain)), conformance.Budget{Time: 4 * time.Second})
}
